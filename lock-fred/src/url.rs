//! The URL of a server: what it stands for, and what is wrong with it.

use std::error::Error;

use fred::types::RespVersion;
use fred::types::config::Config;
use lock_core::backend::InvalidUrl;

use crate::settings::Settings;

/// Of what fred reads. Those of clusters and sentinels are refused by what they stand for.
const SCHEMES: [&str; 10] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+unix",
    "valkey+unix",
    "redis-cluster",
    "rediss-cluster",
    "redis-sentinel",
    "rediss-sentinel",
];

/// The settings that a URL stands for.
pub(crate) fn parse(url: &str) -> Result<Settings, InvalidUrl> {
    let url = InvalidUrl::check(url, &SCHEMES)?;
    settings(url).map_err(|source| InvalidUrl::new(url, source))
}

fn settings(url: &str) -> Result<Settings, Box<dyn Error + Send + Sync>> {
    let scheme = url.split(':').next().unwrap_or_default();
    let scheme = scheme.to_ascii_lowercase();
    let base = scheme.split(['-', '+']).next().unwrap_or_default();
    let asks_for_tls = matches!(base, "rediss" | "valkeys");
    if asks_for_tls {
        check_cryptography()?;
    }
    let mut config = Config::from_url(url)?;
    // Without a TLS feature fred would connect in plain text, password and all.
    if asks_for_tls && !config.uses_tls() {
        let features = "enable-rustls, enable-rustls-ring or enable-native-tls";
        return Err(format!("TLS needs one of the features {features}").into());
    }
    if let Some(version) = protocol(url)? {
        config.version = version;
    }
    Ok(Settings::of_config(config)?)
}

/// With two kinds of cryptography to choose from, rustls would panic.
fn check_cryptography() -> Result<(), &'static str> {
    #[cfg(all(
        feature = "enable-rustls",
        feature = "enable-rustls-ring",
        not(feature = "enable-native-tls")
    ))]
    if fred::rustls::crypto::CryptoProvider::get_default().is_none() {
        return Err(
            "enable-rustls and enable-rustls-ring are both on: choose one, or install a default \
             CryptoProvider of rustls first",
        );
    }
    Ok(())
}

/// The `protocol` of the query, which fred does not know.
fn protocol(url: &str) -> Result<Option<RespVersion>, &'static str> {
    let url = url.split('#').next().unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("protocol="));
    match value {
        None => Ok(None),
        Some("2" | "resp2") => Ok(Some(RespVersion::RESP2)),
        Some("3" | "resp3") => Ok(Some(RespVersion::RESP3)),
        Some(_) => Err("the protocol is neither resp2 nor resp3"),
    }
}
