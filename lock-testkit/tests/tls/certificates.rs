//! Certificates, made anew for each test.

use std::fs;
use std::path::PathBuf;

use lock_testkit::{RedisServer, RedisServerBuilder};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tempfile::TempDir;

/// Somebody who signs certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub(crate) struct Certified {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        let name = &mut params.distinguished_name;
        name.push(DnType::CommonName, "Authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.crt"), issuer.pem()).unwrap();
        Self { issuer, dir }
    }

    pub(crate) fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("ca.crt")
    }

    fn sign(&self, params: &CertificateParams) -> Certified {
        let key = KeyPair::generate().unwrap();
        Certified {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    pub(crate) fn client(&self) -> Certified {
        self.sign(&of_client())
    }

    /// A client's certificate of the past.
    pub(crate) fn expired_client(&self) -> Certified {
        let mut params = of_client();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(&params)
    }

    /// A server with a certificate for these names.
    pub(crate) fn server(&self, names: &[&str]) -> RedisServerBuilder {
        self.server_of(self.sign(&of_server(names)))
    }

    /// A server whose certificate is of the past, or of the future.
    pub(crate) fn server_of_years(&self, from: i32, to: i32) -> RedisServerBuilder {
        let mut params = of_server(&["127.0.0.1"]);
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        self.server_of(self.sign(&params))
    }

    fn server_of(&self, certified: Certified) -> RedisServerBuilder {
        let [certificate, key, ca] = self.files(certified);
        RedisServer::builder().tls(certificate, key, ca)
    }

    /// The files of a server at 127.0.0.1: its certificate, its key and the CA.
    pub(crate) fn server_files(&self) -> [PathBuf; 3] {
        self.files(self.sign(&of_server(&["127.0.0.1"])))
    }

    fn files(&self, certified: Certified) -> [PathBuf; 3] {
        let (certificate, key) = (self.path("server.crt"), self.path("server.key"));
        fs::write(&certificate, certified.certificate).unwrap();
        fs::write(&key, certified.key).unwrap();
        [certificate, key, self.file()]
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn of_client() -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn of_server(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}
