//! Values on the command line.

use std::ops::RangeInclusive;

use lexopt::ValueExt;

use crate::BoxError;

/// Reads the URLs of `--nodes`, with a comma between them.
///
/// # Errors
///
/// There is nothing before or after a comma.
pub fn urls(list: &str) -> Result<Vec<String>, BoxError> {
    let urls: Vec<_> = list.split(',').map(|url| url.trim().to_owned()).collect();
    if urls.iter().any(String::is_empty) {
        return Err("--nodes needs URLs with a comma between them".into());
    }
    Ok(urls)
}

/// Reads the number that follows the option `name`.
///
/// # Errors
///
/// There is none, or not one of the allowed ones.
pub fn number(
    parser: &mut lexopt::Parser,
    name: &str,
    allowed: RangeInclusive<u64>,
) -> Result<u64, BoxError> {
    let word = parser.value()?.string()?;
    match word.parse() {
        Ok(number) if allowed.contains(&number) => Ok(number),
        _ => {
            let (min, max) = allowed.into_inner();
            Err(format!("{name} {word}: a number from {min} to {max} is needed").into())
        }
    }
}
