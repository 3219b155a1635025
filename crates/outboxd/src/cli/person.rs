//! Who does something, for the record.

use super::args::By;
use crate::run::host_name;

impl By {
    /// The name that was given, or the user and the host.
    pub fn name(&self) -> String {
        if let Some(name) = self.by.as_deref().map(str::trim).filter(|name| !name.is_empty()) {
            return name.to_owned();
        }
        let user = ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        let user = user.filter(|user| !user.is_empty()).unwrap_or_else(|| "unknown".to_owned());
        format!("{user}@{}", host_name())
    }
}
