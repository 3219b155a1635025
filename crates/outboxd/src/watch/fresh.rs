//! Figures that are made when somebody asks for them. They have no past: what is gone is not shown, and a relay that was
//! replaced leaves nothing behind.

use std::fmt::Write as _;

/// A figure with all its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Its name.
    pub name: &'static str,
    /// What it tells.
    pub help: &'static str,
    /// Each with its labels.
    pub samples: Vec<Sample>,
}

/// A value, and what it is of.
pub type Sample = (Vec<(&'static str, String)>, f64);

/// Makes them.
pub type Fresh = Box<dyn Fn() -> Vec<Family> + Send + Sync>;

/// As Prometheus reads them.
pub fn render(families: &[Family]) -> String {
    let mut text = String::new();
    for Family { name, help, samples } in families.iter().filter(|family| !family.samples.is_empty()) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in samples {
            let labels: Vec<String> =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escape(value))).collect();
            let _ = writeln!(text, "{name}{{{}}} {value}", labels.join(","));
        }
        text.push('\n');
    }
    text
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d7_a_figure_without_values_is_not_shown_and_labels_are_escaped() {
        let of = |name: &str, value| (vec![("relay", name.to_owned()), ("pipe", "p".to_owned())], value);
        let families = [
            Family { name: "none", help: "Nothing", samples: Vec::new() },
            Family {
                name: "some",
                help: "Something",
                samples: vec![of("a\"b\\c\nd", 1.5), of("e", f64::NAN)],
            },
        ];
        let shown = "# HELP some Something\n# TYPE some gauge\nsome{relay=\"a\\\"b\\\\c\\nd\",pipe=\"p\"} 1.5\n\
                     some{relay=\"e\",pipe=\"p\"} NaN\n\n";
        assert_eq!(render(&families), shown);
    }
}
