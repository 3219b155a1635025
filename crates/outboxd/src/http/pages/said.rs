//! What somebody typed into a form or an address.

/// A field that was left empty asks for nothing.
pub(super) fn asked(text: &str) -> Option<String> {
    Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// What a form or link of ours carries, as it is: an id may well begin with a space.
pub(super) fn carried(text: &str) -> Option<String> {
    Some(text).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// A word for a shell, quoted where it must be. Pure.
pub(super) fn shell(word: &str) -> String {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '/' | '=' | ',' | '@');
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_copy_means_what_it_says() {
        assert_eq!(shell("order-1"), "order-1");
        assert_eq!(shell("it's $HOME; rm"), r"'it'\''s $HOME; rm'");
        assert_eq!(shell(""), "''");
        assert_eq!(shell("order.*"), "'order.*'");
    }

    #[test]
    fn an_empty_field_asks_for_nothing() {
        assert_eq!((asked("  "), asked(" a ")), (None, Some("a".to_owned())));
        assert_eq!((carried(""), carried(" a ")), (None, Some(" a ".to_owned())));
    }
}
