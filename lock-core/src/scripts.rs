//! The Lua scripts. They are nowhere else: backends send the words of
//! [`Command::args`](crate::Command::args), and in-process nodes never see a script.

use std::sync::OnceLock;

macro_rules! script {
    ($name:literal) => {
        Script::new($name, include_str!(concat!("scripts/", $name, ".lua")))
    };
}

/// The same behind the restart guard.
macro_rules! guarded {
    ($name:literal) => {
        Script::new(
            concat!($name, "_guarded"),
            concat!(
                include_str!("scripts/guard.lua"),
                include_str!(concat!("scripts/", $name, ".lua"))
            ),
        )
    };
}

pub(crate) static ACQUIRE: Script = script!("acquire");
pub(crate) static EXTEND: Script = script!("extend");
pub(crate) static EXCHANGE: Script = script!("exchange");
pub(crate) static RELEASE: Script = script!("release");
pub(crate) static ACQUIRE_ALL: Script = script!("acquire_all");
pub(crate) static ACQUIRE_FENCED: Script = script!("acquire_fenced");
pub(crate) static CONFIRM: Script = script!("confirm");
pub(crate) static RELEASE_ALL: Script = script!("release_all");
pub(crate) static INSPECT: Script = script!("inspect");
pub(crate) static REMOVE: Script = script!("remove");
pub(crate) static DESCRIBE: Script = script!("describe");
pub(crate) static BOOTSTRAP: Script = script!("bootstrap");
pub(crate) static ACQUIRE_GUARDED: Script = guarded!("acquire");
pub(crate) static ACQUIRE_ALL_GUARDED: Script = guarded!("acquire_all");
pub(crate) static ACQUIRE_FENCED_GUARDED: Script = guarded!("acquire_fenced");

/// A script and its SHA-1 digest, by which servers know it.
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    const fn new(name: &'static str, source: &'static str) -> Self {
        Self {
            name,
            source,
            digest: OnceLock::new(),
        }
    }

    pub(crate) fn digest(&self) -> &str {
        self.digest
            .get_or_init(|| sha1_smol::Sha1::from(self.source).digest().to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_the_sha1_of_the_source_in_lower_case() {
        let script = Script::new("one", "return 1");
        assert_eq!(script.digest(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
