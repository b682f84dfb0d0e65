//! An endpoint that can be moved: new connections go elsewhere, old ones stay where they are.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// It has threads of its own, which end with the connections.
pub struct Forwarder {
    port: u16,
    target: Arc<Mutex<SocketAddr>>,
}

impl Forwarder {
    pub fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Arc::new(Mutex::new(target));
        let newest = Arc::clone(&target);
        thread::spawn(move || {
            for client in listener.incoming() {
                let target = *newest.lock().unwrap();
                if let (Ok(client), Ok(server)) = (client, TcpStream::connect(target)) {
                    forward(&client, &server);
                    forward(&server, &client);
                }
            }
        });
        Self { port, target }
    }

    /// From now on new connections lead there.
    pub fn lead_to(&self, target: SocketAddr) {
        *self.target.lock().unwrap() = target;
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

fn forward(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    for stream in [&from, &to] {
        stream.set_nodelay(true).ok();
    }
    thread::spawn(move || {
        io::copy(&mut from, &mut to).ok();
        // Whatever broke, both ends are to see it.
        from.shutdown(Shutdown::Both).ok();
        to.shutdown(Shutdown::Both).ok();
    });
}
