//! A table of handled ids that somebody else made. Pure: whoever asks the catalogue hands in what it said.

use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageId;
use crate::schema::{Column, NAME_HELP, Name, TableName, Type, Unique};

/// An existing table of handled ids, such as `ProcessedEvents (EventId, ProcessedAt)`, used as an inbox.
///
/// The id needs a unique index of its own, or together with the consumer where there is such a column: it is what
/// makes one of two the first. Without a column for the consumer the table is one consumer's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxTable {
    pub(crate) table: TableName,
    pub(crate) id: Name,
    pub(crate) at: Option<Name>,
    pub(crate) consumer: Option<Name>,
    pub(crate) prune: bool,
}

impl InboxTable {
    /// A table, in a schema or where the connection looks first, and its column of ids.
    pub fn parse(schema: Option<&str>, table: &str, id: &str) -> Result<Self> {
        let schema = schema.map(|schema| read("schema", schema, Name::parse)).transpose()?;
        let table = TableName { schema, table: read("table", table, Name::parse_table)? };
        Ok(Self { table, id: read("id", id, Name::parse)?, at: None, consumer: None, prune: false })
    }

    /// The column that has the time at which an id was handled.
    pub fn at(mut self, column: &str) -> Result<Self> {
        self.at = Some(read("at", column, Name::parse)?);
        Ok(self)
    }

    /// The column that has the name of the consumer.
    pub fn consumer(mut self, column: &str) -> Result<Self> {
        self.consumer = Some(read("consumer", column, Name::parse)?);
        Ok(self)
    }

    /// Whether [`prune`](crate::Inbox::prune) removes rows of it. Not unless told: it is somebody else's table.
    pub fn prune(mut self, prune: bool) -> Result<Self> {
        if prune && self.at.is_none() {
            let why = format!("table '{}' cannot be pruned: name the column that has the time", self.table);
            return Err(Error::new(ErrorKind::Config, why));
        }
        self.prune = prune;
        Ok(self)
    }

    /// Checks it against the columns and unique indexes that are there; every misfit is told.
    pub(crate) fn check(&self, columns: &[Column], unique: &[Unique]) -> Result<Keys> {
        let table = &self.table;
        if columns.is_empty() {
            let why = format!("there is no table '{table}', or it is not visible to this user");
            return Err(Error::new(ErrorKind::Mapping, why));
        }
        let mut misfits = Vec::new();
        let id = find(columns, "id", &self.id, &mut misfits);
        let consumer = self.consumer.as_ref().and_then(|name| find(columns, "consumer", name, &mut misfits));
        let at = self.at.as_ref().and_then(|name| find(columns, "at", name, &mut misfits));
        if let Some(id) = id.filter(|id| !matches!(id.kind, Type::Uuid | Type::Text(_))) {
            misfits.push(format!("id: '{}' is {}, and must be a uuid or text", self.id, id.type_name));
        }
        if let Some(column) = consumer.filter(|column| !matches!(column.kind, Type::Text(_))) {
            misfits.push(format!("consumer: '{}' is {}, and must be text", column.name, column.type_name));
        }
        if let Some(column) = at.filter(|column| !matches!(column.kind, Type::Time { .. })) {
            misfits.push(format!("at: '{}' is {}, and must be a time", column.name, column.type_name));
        }
        misfits.extend(self.check_unique(unique));
        let ours: Vec<&str> = self.names().map(Name::as_str).collect();
        let needed = |column: &&Column| !column.optional && !ours.contains(&column.name.as_str());
        misfits.extend(columns.iter().filter(needed).map(|column| {
            format!("column '{}' must be filled, and nothing here can do so; give it a default", column.name)
        }));
        let (Some(id), []) = (id, &misfits[..]) else {
            let why = format!("table '{table}' cannot be an inbox: {}", misfits.join("; "));
            return Err(Error::new(ErrorKind::Mapping, why));
        };
        Ok(Keys { uuid: id.kind == Type::Uuid, id: limit(id), consumer: consumer.and_then(limit) })
    }

    /// Without its own unique index two could record an id; one with more columns would not stop them, and one on the
    /// id alone would make a second consumer believe that it has handled what the first has.
    fn check_unique(&self, unique: &[Unique]) -> Option<String> {
        let wanted: Unique =
            [Some(&self.id), self.consumer.as_ref()].into_iter().flatten().map(Name::to_string).collect();
        let names = wanted.iter().map(String::as_str).collect::<Vec<_>>().join("', '");
        if !unique.contains(&wanted) {
            return Some(format!("there is no unique index on exactly '{names}'; create one"));
        }
        let id_alone = Unique::from([self.id.to_string()]);
        (self.consumer.is_some() && unique.contains(&id_alone)).then(|| {
            format!(
                "'{}' alone is unique, so consumers would see each other's ids; leave 'consumer' out",
                self.id
            )
        })
    }

    fn names(&self) -> impl Iterator<Item = &Name> {
        [Some(&self.id), self.at.as_ref(), self.consumer.as_ref()].into_iter().flatten()
    }
}

fn read(what: &str, text: &str, parse: impl Fn(&str) -> Result<Name, String>) -> Result<Name> {
    parse(text).map_err(|why| Error::new(ErrorKind::Config, format!("{what}: {why}; {NAME_HELP}")))
}

fn find<'a>(columns: &'a [Column], what: &str, name: &Name, misfits: &mut Vec<String>) -> Option<&'a Column> {
    let found = columns.iter().find(|column| column.name == name.as_str());
    if found.is_none() {
        misfits.push(format!("{what}: there is no column '{name}'"));
    }
    found
}

fn limit(column: &Column) -> Option<u32> {
    if let Type::Text(limit) = column.kind { limit } else { None }
}

/// What the columns of an inbox can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Whether an id is a UUID.
    pub(crate) uuid: bool,
    /// The most characters of an id.
    pub(crate) id: Option<u32>,
    /// The most characters of a consumer.
    pub(crate) consumer: Option<u32>,
}

impl Keys {
    /// The id as the column has it.
    pub(crate) fn id(&self, id: &MessageId) -> Result<String> {
        let unfit = |why: String| Err(Error::new(ErrorKind::Invalid, why));
        let text = id.as_str();
        if self.uuid {
            let shown: String = text.chars().filter(|c| !c.is_control()).take(80).collect();
            return match Uuid::parse_str(text) {
                Ok(id) => Ok(id.hyphenated().to_string()),
                Err(_) => unfit(format!("the id '{shown}' is no UUID, as the table of handled ids needs")),
            };
        }
        if text.contains('\0') {
            return unfit("the id has a NUL character, which no table of handled ids takes".to_owned());
        }
        match self.id {
            Some(most) if text.chars().count() > most as usize => {
                let count = text.chars().count();
                unfit(format!("the id has {count} characters, the table of handled ids takes {most}"))
            }
            _ => Ok(text.to_owned()),
        }
    }

    /// Whether the name of the consumer fits: cut off, it would be another's.
    pub(crate) fn check_consumer(&self, consumer: &str) -> Result<()> {
        match self.consumer {
            Some(most) if consumer.chars().count() > most as usize => {
                let why = format!("the name of consumer '{consumer}' is longer than {most} characters");
                Err(Error::new(ErrorKind::Config, why))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
