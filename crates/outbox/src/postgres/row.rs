//! Rows to messages and back.

use jiff::Timestamp;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Row, Type};
use uuid::Uuid;

use crate::message::{Message, headers_from_json};

/// A `timestamptz`: microseconds since the year 2000 on the wire.
#[derive(Debug, Clone, Copy)]
pub(super) struct At(pub(super) Timestamp);

/// 2000-01-01 in microseconds since 1970.
const EPOCH: i64 = 946_684_800_000_000;

const TIMESTAMPTZ: sqlx::postgres::types::Oid = sqlx::postgres::types::Oid(1184);
const TIMESTAMPTZ_ARRAY: sqlx::postgres::types::Oid = sqlx::postgres::types::Oid(1185);

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }
    fn compatible(ty: &PgTypeInfo) -> bool {
        ty.oid() == Some(TIMESTAMPTZ)
    }
}

impl PgHasArrayType for At {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ_ARRAY)
    }
}

impl Encode<'_, Postgres> for At {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&(self.0.as_microsecond() - EPOCH).to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for At {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => {
                let micros = i64::from_be_bytes(value.as_bytes()?.try_into()?).saturating_add(EPOCH);
                // 'infinity' and times before year 1 are valid there and not here.
                Ok(Self(Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH)))
            }
            PgValueFormat::Text => Ok(Self(value.as_str()?.parse()?)),
        }
    }
}

/// The message of a row that has the columns of `outbox.messages`, with headers as text.
pub(super) fn message(row: &PgRow) -> sqlx::Result<Message> {
    let payload: Vec<u8> = row.try_get("payload")?;
    let (id, kind): (Uuid, String) = (row.try_get("id")?, row.try_get("type")?);
    let mut message = Message::known(id, kind, payload, row.try_get::<At, _>("occurred_at")?.0)
        .content_type(row.try_get::<String, _>("content_type")?);
    message.key = row.try_get("key")?;
    message.headers = headers_from_json(row.try_get("headers")?).unwrap_or_default();
    message.attempts = u32::try_from(row.try_get::<i32, _>("attempts")?).unwrap_or(0);
    Ok(message)
}
