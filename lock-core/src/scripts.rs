//! The Lua scripts. They are nowhere else: backends send the words of
//! [`Command::args`](crate::Command::args), and in-process nodes never see a script.

use std::sync::OnceLock;

pub(crate) static ACQUIRE: Script = Script::new(include_str!("scripts/acquire.lua"));
pub(crate) static EXTEND: Script = Script::new(include_str!("scripts/extend.lua"));
pub(crate) static RELEASE: Script = Script::new(include_str!("scripts/release.lua"));
pub(crate) static ACQUIRE_ALL: Script = Script::new(include_str!("scripts/acquire_all.lua"));
pub(crate) static RELEASE_ALL: Script = Script::new(include_str!("scripts/release_all.lua"));
pub(crate) static INSPECT: Script = Script::new(include_str!("scripts/inspect.lua"));
pub(crate) static REMOVE: Script = Script::new(include_str!("scripts/remove.lua"));

/// A script and its SHA-1 digest, by which servers know it.
#[derive(Debug)]
pub(crate) struct Script {
    source: &'static str,
    digest: OnceLock<String>,
}

impl Script {
    const fn new(source: &'static str) -> Self {
        Self {
            source,
            digest: OnceLock::new(),
        }
    }

    pub(crate) fn source(&self) -> &'static str {
        self.source
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
        let script = Script::new("return 1");
        assert_eq!(script.digest(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
    }
}
