//! Passwords of people: kept as argon2id in a PHC string, and never otherwise.

use anyhow::anyhow;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};

/// The hash of a password, with a salt of its own.
pub fn hash(password: &str) -> anyhow::Result<String> {
    let hash = Argon2::default().hash_password(password.as_bytes());
    hash.map(|hash: PasswordHash| hash.to_string()).map_err(|error| anyhow!("cannot hash it: {error}"))
}

/// Whether this is such a hash, whole and with parameters that can be computed.
pub fn is_hash(text: &str) -> bool {
    let Ok(hash) = PasswordHash::new(text) else { return false };
    hash.algorithm.as_str() == "argon2id"
        && hash.salt.is_some()
        && hash.hash.is_some()
        && Params::try_from(&hash).is_ok()
}

/// Whether the password is the one of the hash. It takes long, as it should: not for a thread that serves others.
pub fn is_right(password: &str, hash: &str) -> bool {
    PasswordHash::new(hash)
        .is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}

/// Bytes that follow from a secret and tell nothing of it. The secret itself is hard to guess, so this may be quick.
pub fn derive<const N: usize>(secret: &str, purpose: &[u8]) -> anyhow::Result<[u8; N]> {
    let failed = |error: argon2::Error| anyhow!("cannot derive a key: {error}");
    let params = Params::new(Params::MIN_M_COST, 1, 1, Some(N)).map_err(failed)?;
    let mut derived = [0; N];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(secret.as_bytes(), purpose, &mut derived).map_err(failed)?;
    Ok(derived)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_itself_is_right() {
        let hash = hash("correct horse battery").expect("it can be hashed");
        assert!(hash.starts_with("$argon2id$v=19$m=") && is_hash(&hash), "{hash}");
        assert!(is_right("correct horse battery", &hash));
        for wrong in ["", "correct horse", "Correct horse battery"] {
            assert!(!is_right(wrong, &hash), "{wrong}");
        }
        assert!(!is_right("correct horse battery", "no hash"));
    }

    #[test]
    fn what_is_no_whole_argon2id_hash_is_none() {
        let salt = "c29tZXNhbHRzb21lc2FsdA";
        let end = "CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        assert!(is_hash(&format!("$argon2id$v=19$m=8,t=1,p=1${salt}${end}")));
        for wrong in [
            String::new(),
            "correct horse battery".to_owned(),
            format!("$argon2i$v=19$m=8,t=1,p=1${salt}${end}"),
            format!("$argon2id$v=19$m=8,t=1,p=1${salt}"),
            format!("$argon2id$v=19$m=1,t=0,p=1${salt}${end}"),
            "$2y$10$abcdefghijklmnopqrstuu".to_owned(),
        ] {
            assert!(!is_hash(&wrong), "{wrong}");
        }
    }

    #[test]
    fn what_is_derived_follows_from_secret_and_purpose() {
        let one: [u8; 16] = derive("secret", b"purpose-one").expect("it can be derived");
        assert_eq!(one, derive("secret", b"purpose-one").expect("it can be derived"));
        assert_ne!(one, derive("secret", b"purpose-two").expect("it can be derived"));
        assert_ne!(one, derive("Secret", b"purpose-one").expect("it can be derived"));
    }
}
