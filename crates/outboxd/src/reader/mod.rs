//! Walks the tables of a configuration and turns values into types; what does not fit is noted with its
//! place and the walk goes on.
//!
//! A key is known by being asked for, so the list behind "did you mean" cannot drift from the code.

mod value;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::environment::expand;
use crate::mistake::{At, Mistakes, Place, did_you_mean, nearest, start};
use crate::secret::mask;

/// What a section needs to read its values.
pub struct Reader<'a> {
    /// The text of the file, to quote from.
    pub text: &'a str,
    /// The folder of the file: relative paths start here.
    pub base: &'a Path,
    /// Looks up a variable of the environment.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Where mistakes go.
    pub mistakes: &'a Mistakes,
    /// Every key that was asked for, as `section.key` with `NAME` for chosen names.
    pub keys: RefCell<BTreeSet<String>>,
}

/// One table of the configuration.
pub struct Section<'a> {
    reader: &'a Reader<'a>,
    /// As the person wrote it: `pipes.relay`.
    path: String,
    /// As the reference has it: `pipes.NAME`.
    shape: String,
    table: &'a DeTable<'a>,
    place: Place,
    asked: RefCell<Vec<&'static str>>,
    missing: RefCell<Vec<(Vec<&'static str>, String)>>,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub fn root(reader: &'a Reader<'a>, table: &'a DeTable<'a>) -> Self {
        Self::new(reader, String::new(), String::new(), table, 0)
    }

    fn new(
        reader: &'a Reader<'a>,
        path: String,
        shape: String,
        table: &'a DeTable<'a>,
        place: Place,
    ) -> Self {
        Self { reader, path, shape, table, place, asked: RefCell::default(), missing: RefCell::default() }
    }

    /// Where the section begins.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Where a key's value stands, or the section if it is not set.
    pub fn place_of(&self, key: &str) -> Place {
        self.table.get(key).map_or(self.place, |value| start(value.span()))
    }

    /// Where a key's value stands, if it is set.
    pub fn place_if_set(&self, key: &str) -> Option<Place> {
        self.is_set(key).then(|| self.place_of(key))
    }

    /// Whether the key is set, which does not make it known.
    pub fn is_set(&self, key: &str) -> bool {
        self.table.get(key).is_some()
    }

    /// Whether the key is set; asking makes it known.
    pub fn has(&self, key: &'static str) -> bool {
        self.entry(key).is_some()
    }

    /// Whether the key is set to a table, which does not make it known.
    pub fn is_table(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|value| matches!(value.get_ref(), DeValue::Table(_)))
    }

    fn entry(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.asked.borrow_mut().push(key);
        let shape = join(&self.shape, key);
        self.reader.keys.borrow_mut().insert(shape);
        self.table.get(key)
    }

    /// Notes that a value breaks a rule.
    pub fn note(&self, key: &str, rule: impl Display, help: impl Into<String>) {
        let quoted = match self.table.get(key).map(|value| (value.get_ref(), value.span())) {
            Some((DeValue::Table(_) | DeValue::Array(_), _)) | None => String::new(),
            Some((_, span)) => {
                let line = self.reader.text[span].lines().next().unwrap_or_default();
                format!(" = {}", mask(line).chars().take(80).collect::<String>())
            }
        };
        let what = format!("{}{quoted}: {rule}", join(&self.path, key));
        self.reader.mistakes.note(self.place_of(key), what, help);
    }

    /// The same for a value that nobody may see.
    pub fn note_hidden(&self, key: &str, rule: impl Display, help: impl Into<String>) {
        let what = format!("{}: {rule}", join(&self.path, key));
        self.reader.mistakes.note(self.place_of(key), what, help);
    }

    fn note_type(&self, key: &str, value: &DeValue<'_>, wanted: &str, help: &str) {
        let rule = format!("must be {wanted}, not {} {}", article(value.type_str()), value.type_str());
        // The value itself is left out: in the wrong place it may be anything, also a secret.
        let what = format!("{}: {rule}", join(&self.path, key));
        self.reader.mistakes.note(self.place_of(key), what, help);
    }

    /// A string, with the variables of the environment put in.
    pub fn text(&self, key: &'static str) -> Option<At<String>> {
        let value = self.entry(key)?;
        self.expand(key, value)
    }

    fn expand(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<At<String>> {
        let place = start(value.span());
        let DeValue::String(text) = value.get_ref() else {
            self.note_type(key, value.get_ref(), "a string", "put it in quotes");
            return None;
        };
        match expand(text, self.reader.environment) {
            Ok(text) => Some(At::new(text, place)),
            Err((rule, help)) => {
                self.reader.mistakes.note(place, format!("{}: {rule}", join(&self.path, key)), help);
                None
            }
        }
    }

    /// A variable of the environment that stands in for what was not written.
    pub fn variable(&self, name: &str) -> Option<String> {
        (self.reader.environment)(name).filter(|value| !value.is_empty())
    }

    /// A string that must be there; `help` says what it is for.
    pub fn required(&self, key: &'static str, help: &str) -> Option<At<String>> {
        let value = self.text(key);
        if self.table.get(key).is_none() {
            self.note_missing(&[key], help);
        }
        value
    }

    /// A path, relative to the folder of the configuration.
    pub fn path(&self, key: &'static str) -> Option<At<PathBuf>> {
        let text = self.text(key)?;
        if text.value.is_empty() {
            self.note(key, "must name a file", "write the path of a file");
            return None;
        }
        Some(At::new(self.reader.base.join(text.value), text.place))
    }

    /// The content of a file, as it is.
    pub fn file(&self, key: &'static str) -> Option<At<String>> {
        self.path(key).and_then(|path| self.read(key, path))
    }

    fn read(&self, key: &str, path: At<PathBuf>) -> Option<At<String>> {
        match std::fs::read_to_string(&path.value) {
            Ok(content) => Some(At::new(content, path.place)),
            Err(error) => {
                self.note(key, format!("cannot be read: {error}"), "check the path and its permissions");
                None
            }
        }
    }

    /// The content of a file that holds a secret, without its last line break.
    pub fn secret_file(&self, key: &'static str) -> Option<At<String>> {
        self.file(key).map(without_last_break)
    }

    /// The contents of one or more such files.
    pub fn secret_files(&self, key: &'static str) -> Vec<At<String>> {
        let path = |text: At<String>| At::new(self.reader.base.join(text.value), text.place);
        let paths = self.one_or_more(key).into_iter().map(path);
        paths.filter_map(|path| self.read(key, path)).map(without_last_break).collect()
    }

    /// A list of tables.
    pub fn tables(&self, key: &'static str) -> Vec<Section<'a>> {
        let Some(value) = self.entry(key) else { return Vec::new() };
        let items = match value.get_ref() {
            DeValue::Array(items) => items.as_ref(),
            other => {
                self.note_type(key, other, "a list of tables", "write it as [{ … }, { … }]");
                return Vec::new();
            }
        };
        let mut sections = Vec::new();
        for (index, item) in items.iter().enumerate() {
            let path = join(&self.path, &format!("{key}[{index}]"));
            match item.get_ref() {
                DeValue::Table(table) => {
                    let shape = join(&self.shape, &format!("{key}[]"));
                    sections.push(Section::new(self.reader, path, shape, table, start(item.span())));
                }
                other => {
                    let what = format!(
                        "{path}: must be a table, not {} {}",
                        article(other.type_str()),
                        other.type_str()
                    );
                    self.reader.mistakes.note(start(item.span()), what, "write it as { name = \"…\" }");
                }
            }
        }
        sections
    }

    /// A table that may be absent.
    pub fn section(&self, key: &'static str) -> Option<Section<'a>> {
        let value = self.entry(key)?;
        match value.get_ref() {
            DeValue::Table(table) => {
                let place = self.key_place(key);
                Some(Section::new(self.reader, join(&self.path, key), join(&self.shape, key), table, place))
            }
            other => {
                self.note_type(key, other, "a table", &format!("write it as [{}]", join(&self.path, key)));
                None
            }
        }
    }

    /// Every entry of a section whose keys are names that the person chose; `wanted` describes a value.
    pub fn named(&self) -> Vec<(At<String>, &'a Spanned<DeValue<'a>>)> {
        let name =
            |key: &Spanned<std::borrow::Cow<'_, str>>| At::new(key.get_ref().to_string(), start(key.span()));
        self.table.iter().map(|(key, value)| (name(key), value)).collect()
    }

    /// Every entry of a section, each of which must be a table.
    pub fn named_sections(&self) -> Vec<(At<String>, Section<'a>)> {
        let mut sections = Vec::new();
        for (name, value) in self.named() {
            match self.as_section(&name, value) {
                Some(section) => sections.push((name, section)),
                None => {
                    let help = format!("write it as [{}]", join(&self.path, &name.value));
                    self.note_type(&name.value, value.get_ref(), "a table", &help);
                }
            }
        }
        sections
    }

    /// The value as a section, if it is a table.
    pub fn as_section(&self, name: &At<String>, value: &'a Spanned<DeValue<'a>>) -> Option<Section<'a>> {
        let DeValue::Table(table) = value.get_ref() else { return None };
        let (path, shape) = (join(&self.path, &name.value), join(&self.shape, "NAME"));
        Some(Section::new(self.reader, path, shape, table, name.place))
    }

    /// A named value that is a string.
    pub fn named_text(&self, name: &At<String>, value: &Spanned<DeValue<'_>>) -> Option<At<String>> {
        self.expand(&name.value, value)
    }

    fn key_place(&self, key: &str) -> Place {
        self.table.get_key_value(key).map_or(self.place, |(key, _)| start(key.span()))
    }

    /// Notes that none of `keys`, of which the section needs one, is there, unless a misspelt key explains it.
    pub fn note_missing(&self, keys: &[&'static str], help: &str) {
        self.missing.borrow_mut().push((keys.to_vec(), help.to_owned()));
    }

    /// Notes keys that nobody asked for, then those that are missing.
    ///
    /// `elsewhere` are keys that exist for another kind of this section, with the words for that kind. A
    /// misspelt key is one mistake: it is not told again as missing. Tells what misspelt keys were meant to be.
    pub fn finish(self, elsewhere: &[(&'static str, &str)]) -> Vec<&'static str> {
        let asked = self.asked.into_inner();
        let mut explained = Vec::new();
        let mut unknown = Vec::new();
        for (key, _) in self.table.iter() {
            let name: &str = key.get_ref();
            if asked.contains(&name) {
                continue;
            }
            let whole = if self.path.is_empty() { "the file".to_owned() } else { format!("[{}]", self.path) };
            if let Some((_, kind)) = elsewhere.iter().find(|(other, _)| *other == name) {
                let what = format!("'{name}' has no meaning in {whole}");
                unknown.push((start(key.span()), what, format!("it belongs to {kind}; remove it")));
                continue;
            }
            let known = asked.iter().copied().chain(elsewhere.iter().map(|(key, _)| *key));
            explained.extend(nearest(name, known.clone()));
            let help = did_you_mean(name, BTreeSet::from_iter(known));
            unknown.push((start(key.span()), format!("unknown key '{name}' in {whole}"), help));
        }
        for (keys, help) in self.missing.into_inner() {
            if !keys.iter().any(|key| explained.contains(key)) {
                let what = format!("[{}] has no '{}'", self.path, keys.join("' or '"));
                self.reader.mistakes.note(self.place, what, help);
            }
        }
        for (place, what, help) in unknown {
            self.reader.mistakes.note(place, what, help);
        }
        explained
    }
}

fn without_last_break(text: At<String>) -> At<String> {
    At::new(text.value.trim_end_matches(['\r', '\n']).to_owned(), text.place)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}
