//! The whole life of a message, over all pipes that the configuration names.

mod answer;
mod gather;
mod life;
mod unsearched;

use serde::Deserialize;
use utoipa::IntoParams;

use super::{Office, choose};
use crate::trouble::Trouble;

pub use answer::Shown;
pub use life::{Life, Written};

/// What to tell of a message.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ShowRequest {
    /// Only this source.
    pub source: Option<String>,
    /// With its payload, which not everybody should see.
    #[serde(default)]
    #[param(required = false)]
    pub payload: bool,
}

/// What is known of a message, or that it is not known.
pub async fn life(office: &Office, id: &str, source: Option<&str>) -> Result<Life, Trouble> {
    super::check_id(id)?;
    let sources = choose(&office.plan, source)?;
    let (life, troubles) = gather::gather(office, &sources, &id.into()).await;
    if life.is_known() {
        return Ok(life);
    }
    // Where nobody could look it may be.
    let first = troubles.into_iter().next();
    Err(first.unwrap_or_else(|| unsearched::not_found(&office.plan, id, source)))
}

/// The same for scripts.
pub async fn show(office: &Office, id: &str, request: &ShowRequest) -> Result<Shown, Trouble> {
    let life = life(office, id, request.source.as_deref()).await?;
    Ok(Shown::new(id, &life, &office.plan, request.payload))
}
