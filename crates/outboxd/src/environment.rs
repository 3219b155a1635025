//! `${VAR}` and `${VAR:-default}` in the strings of a configuration. `$${` stands for a plain `${`.

/// Puts variables in; an error is the rule that was broken and what to do.
///
/// Neither mentions a value: what a variable holds may be a secret.
pub fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, (String, String)> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(dollar) = rest.find("${") {
        let (before, after) = rest.split_at(dollar);
        if let Some(before) = before.strip_suffix('$') {
            expanded.push_str(before);
            expanded.push_str("${");
            rest = &after[2..];
            continue;
        }
        expanded.push_str(before);
        let Some((inside, behind)) = after[2..].split_once('}') else {
            let help = "close it with }, or write $${ for a plain ${";
            return Err(("has a ${ that is not closed".to_owned(), help.to_owned()));
        };
        expanded.push_str(&variable(inside, lookup)?);
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

fn variable(inside: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<String, (String, String)> {
    let (name, default) = match inside.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inside, None),
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        let help = "a variable is letters, digits and _: ${NAME} or ${NAME:-default}";
        return Err((format!("'{name}' is no name of an environment variable"), help.to_owned()));
    }
    match (lookup(name), default) {
        // As in a shell, a default also stands in for an empty variable.
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => Ok(value),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            let help = format!("set {name}, or give a default: ${{{name}:-value}}");
            Err((format!("the environment variable {name} is not set"), help))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("db".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_defaults_and_escapes() {
        for (text, expected) in [
            ("no variable", "no variable"),
            ("a ${HOST} b ${HOST}", "a db b db"),
            ("${NONE:-x}${EMPTY:-y}${HOST:-z}", "xydb"),
            ("[${EMPTY}]", "[]"),
            ("$${HOST} $5 {type}", "${HOST} $5 {type}"),
            ("${NONE:-}", ""),
        ] {
            assert_eq!(expand(text, &lookup).expect(text), expected);
        }
    }

    #[test]
    fn a_missing_variable_is_named() {
        let (rule, help) = expand("x${NONE}", &lookup).expect_err("it is not set");
        assert_eq!(rule, "the environment variable NONE is not set");
        assert!(help.contains("${NONE:-value}"), "{help}");
        assert!(expand("${HOST", &lookup).is_err());
        assert!(expand("${a b}", &lookup).is_err());
        assert!(expand("${}", &lookup).is_err());
    }
}
