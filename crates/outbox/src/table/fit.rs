//! Whether messages can be written into a mapped table so that they come out as they went in. Pure.

use super::catalog::Layout;
use super::mapping::Origin;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Headers, Message};
use crate::schema::{Column, Dialect, Field, Name, Type};

impl Layout {
    /// What keeps a publisher from writing to the table by its mapping alone; nothing if it can.
    pub(super) fn obstacles(&self) -> Vec<String> {
        let mut told = Vec::new();
        if self.column(&self.mapping.id).is_some_and(|column| column.kind == Type::Integer) {
            told.push(format!(
                "id: column '{}' is a number, and the id of a message is text; map a column of uuid or text",
                self.mapping.id
            ));
        }
        for (key, field) in self.fields() {
            if !field.path.is_empty() {
                told.push(format!("{key}: '{field}' is a member of JSON, which cannot be written by itself"));
            }
            if self.dialect == Dialect::Postgres
                && matches!(self.column(&field.column).map(|column| &column.kind), Some(Type::Enum(_)))
            {
                told.push(format!("{key}: column '{}' is an enum, where any text has to fit", field.column));
            }
        }
        told.extend(self.header_obstacles());
        told.extend(self.order_obstacle());
        let written = self.written();
        let mut others: Vec<_> =
            self.columns().filter(|column| !column.optional && !written.contains(&column.name)).collect();
        others.sort_by(|a, b| a.name.cmp(&b.name));
        for Column { name, .. } in others {
            told.push(format!("column '{name}' needs a value that nobody gives; let it have a default"));
        }
        told
    }

    /// A header whose column is written for something else would come out as that.
    fn header_obstacles(&self) -> Vec<String> {
        let mapping = &self.mapping;
        let content_type = match &mapping.content_type {
            Origin::Field(field) => Some(&field.column),
            Origin::Constant(_) => None,
        };
        let mut others: Vec<&Name> =
            mapping.occurred_at.iter().chain(&mapping.order_by).chain(content_type).collect();
        others.push(&mapping.payload.column);
        others.extend(mapping.headers.iter().map(|field| &field.column));
        let columns = mapping.header_columns.iter().filter(|(_, field)| others.contains(&&field.column));
        columns
            .map(|(header, field)| {
                format!(
                    "header_columns: column '{}' of header '{header}' has another meaning as well",
                    field.column
                )
            })
            .collect()
    }

    /// Every field that is written, with its key of the configuration.
    fn fields(&self) -> Vec<(&'static str, &Field)> {
        let mapping = &self.mapping;
        let mut fields = vec![("payload", &mapping.payload)];
        if let Origin::Field(field) = &mapping.kind {
            fields.push(("type", field));
        }
        if let Origin::Field(field) = &mapping.content_type {
            fields.push(("content_type", field));
        }
        fields.extend(mapping.key.iter().map(|field| ("key", field)));
        fields.extend(mapping.headers.iter().map(|field| ("headers", field)));
        fields.extend(mapping.header_columns.iter().map(|(_, field)| ("header_columns", field)));
        fields
    }

    /// The columns of the order that get the time at which a row is kept. Also where that is when the message happened:
    /// the clocks of those who publish order nothing.
    pub(super) fn kept_at(&self) -> impl Iterator<Item = &Name> {
        let is_time =
            |name: &&Name| matches!(self.column(name).map(|column| &column.kind), Some(Type::Time { .. }));
        self.mapping.order_by.iter().filter(is_time)
    }

    /// The column that says in which order the rows of a key were kept.
    fn order_column(&self) -> Option<&Column> {
        let is_key = |name: &Name| self.mapping.key.as_ref().is_some_and(|key| key.column == *name);
        self.mapping.order_by.iter().find(|name| !is_key(name)).and_then(|name| self.column(name))
    }

    pub(super) fn is_ordered_by_time(&self) -> bool {
        self.order_column().is_some_and(|column| matches!(column.kind, Type::Time { .. }))
    }

    fn order_obstacle(&self) -> Option<String> {
        let wanted = "order by a number that the database gives, or by a time";
        let Some(column) = self.order_column() else {
            return Some(format!("order_by: nothing says in which order rows were kept; {wanted}"));
        };
        let name = &column.name;
        match column.kind {
            Type::Time { .. } if self.digits(column) < 3 => Some(format!(
                "order_by: column '{name}' ({}) keeps no thousandths of a second, so it does not tell the order; {wanted} \
                 that does",
                column.type_name
            )),
            Type::Time { .. } => None,
            Type::Integer if column.optional && !column.nullable => None,
            _ => Some(format!(
                "order_by: column '{name}' does not tell in which order rows were kept; {wanted}"
            )),
        }
    }

    /// The digits of a second that a time has behind the point.
    fn digits(&self, column: &Column) -> u32 {
        let told = column.type_name.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
        told.and_then(|(digits, _)| digits.parse().ok()).unwrap_or(if self.dialect == Dialect::Postgres {
            6
        } else {
            0
        })
    }

    /// The message as it would come out again; an error if it would not be the same, or not fit at all.
    pub(super) fn admit(&self, mut message: Message) -> Result<Message> {
        let about = format!("message {} of type '{}'", message.id, message.kind);
        let wrong = |what: String| Error::new(ErrorKind::Invalid, format!("{about}: {what}"));
        let id = self.form("id", &self.mapping.id, message.id.as_str()).map_err(wrong)?;
        message = message.id(id);
        for (what, origin, given) in [
            ("type", &self.mapping.kind, &message.kind),
            ("content type", &self.mapping.content_type, &message.content_type),
        ] {
            match origin {
                Origin::Constant(constant) if constant != given => {
                    return Err(wrong(format!("every {what} in the table is '{constant}', not '{given}'")));
                }
                Origin::Constant(_) => {}
                Origin::Field(field) => drop(self.form(what, &field.column, given).map_err(wrong)?),
            }
        }
        message.key = self.key_of(&message).map_err(wrong)?;
        message.headers = self.headers_of(&message).map_err(wrong)?;
        self.payload_fits(&message.payload).map_err(wrong)?;
        let micros = message.occurred_at.as_microsecond();
        match jiff::Timestamp::from_microsecond(micros) {
            // The years that every database can hold.
            Ok(at) if at.as_second() >= -30_610_224_000 => Ok(message.occurred_at(at)),
            _ => Err(wrong("its time is before the year 1000".to_owned())),
        }
    }

    fn key_of(&self, message: &Message) -> Result<Option<String>, String> {
        match (&self.mapping.key, &message.key) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err("it has a key, and the mapping has no column for that".to_owned()),
            (Some(field), Some(key)) => self.form("key", &field.column, key).map(Some),
            (Some(field), None) if self.column(&field.column).is_some_and(|column| !column.nullable) => {
                Err(format!("it has no key, and column '{}' needs one", field.column))
            }
            (Some(_), None) => Ok(None),
        }
    }

    /// The headers as they come out: one whose column is that of the id, the type or the key is that.
    fn headers_of(&self, message: &Message) -> Result<Headers, String> {
        let (mapping, mut headers) = (&self.mapping, message.headers.clone());
        let lost = |name: &&String| !mapping.header_columns.iter().any(|(header, _)| header == *name);
        if mapping.headers.is_none()
            && let Some(name) = headers.keys().find(lost)
        {
            return Err(format!("it has a header '{name}', and the mapping has no column for that"));
        }
        for (header, Field { column, .. }) in &mapping.header_columns {
            let given = match (self.same_column(message, column), headers.get(header)) {
                (Some(value), Some(given)) if value.as_ref() != Some(given) => {
                    return Err(format!("its header '{header}' is another than what column '{column}' has"));
                }
                (Some(value), _) => value,
                (None, Some(given)) => Some(self.form(&format!("header '{header}'"), column, given)?),
                (None, None) if self.column(column).is_some_and(|column| !column.nullable) => {
                    return Err(format!("it has no header '{header}', and column '{column}' needs one"));
                }
                (None, None) => None,
            };
            headers.extend(given.map(|given| (header.clone(), given)));
        }
        Ok(headers)
    }

    /// What a column has that is the one of the id, of the type or of the key.
    fn same_column(&self, message: &Message, column: &Name) -> Option<Option<String>> {
        let is_it = |field: &Field| field.column == *column;
        if self.mapping.id == *column {
            return Some(Some(message.id.to_string()));
        }
        if matches!(&self.mapping.kind, Origin::Field(field) if is_it(field)) {
            return Some(Some(message.kind.clone()));
        }
        self.mapping.key.as_ref().is_some_and(is_it).then(|| message.key.clone())
    }

    fn payload_fits(&self, payload: &[u8]) -> Result<(), String> {
        let name = &self.mapping.payload.column;
        let Some(column) = self.column(name) else { return Ok(()) };
        if column.kind == Type::Bytes {
            return Ok(());
        }
        let text = std::str::from_utf8(payload)
            .map_err(|_| format!("its payload is not UTF-8, and column '{name}' holds text"))?;
        if column.kind != Type::Json {
            return self.form("payload", name, text).map(drop);
        }
        serde_json::from_str::<serde::de::IgnoredAny>(text)
            .map_err(|error| format!("its payload is no JSON, and column '{name}' holds JSON: {error}"))?;
        if text.contains("\\u0000") {
            return Err(format!(
                "its payload has a NUL character in it, which column '{name}' does not take"
            ));
        }
        Ok(())
    }

    /// A text in the form in which the column gives it back; an error if it does not fit.
    fn form(&self, what: &str, name: &Name, text: &str) -> Result<String, String> {
        let Some(column) = self.column(name) else { return Ok(text.to_owned()) };
        let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
        let misfit = |needs: &str| Err(format!("its {what} '{shown}' does not fit column '{name}', {needs}"));
        if text.contains('\0') {
            return Err(format!("its {what} has a NUL character in it"));
        }
        match &column.kind {
            Type::Uuid => match uuid::Uuid::parse_str(text) {
                Ok(id) => Ok(id.hyphenated().to_string()),
                Err(_) => misfit("which holds UUIDs"),
            },
            // As it is read: hexadecimal.
            Type::Bytes => match uuid::Uuid::parse_str(text) {
                Ok(id) => Ok(id.simple().to_string()),
                Err(_) => misfit("which holds UUIDs as bytes"),
            },
            Type::Integer if text.parse::<i64>().is_ok_and(|number| number.to_string() == text) => {
                Ok(text.to_owned())
            }
            Type::Integer => misfit("which holds whole numbers"),
            Type::Text(Some(most)) if text.chars().count() > *most as usize => {
                let length = text.chars().count();
                Err(format!("its {what} has {length} characters, and column '{name}' holds {most}"))
            }
            Type::Text(_) if text.ends_with(' ') && is_padded(column) => {
                misfit("which does not keep spaces at the end")
            }
            Type::Text(_) => Ok(text.to_owned()),
            Type::Enum(words) if words.iter().any(|word| word == text) => Ok(text.to_owned()),
            Type::Enum(words) => misfit(&format!("which can be {}", words.join(", "))),
            _ => misfit(&format!("which is {}", column.type_name)),
        }
    }
}

/// Whether a text is filled up with spaces, which are gone when it is read.
fn is_padded(column: &Column) -> bool {
    column.type_name.starts_with("char(") || column.type_name == "bpchar"
}
