//! What a code of the client means: whose fault it is, and what to tell. Nothing else looks at one.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::error::{Error, ErrorKind};
use crate::sink::{Cause, code};

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of this message, whatever its neighbours are.
    Message,
    /// Of this message or of another that was sent in one request with it: alone it is told which.
    Neighbours,
    /// Of everything that goes to this topic.
    Topic,
    /// Of everything.
    Sink,
}

/// What a code of the client means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) whose: Whose,
    pub(super) code: &'static str,
    pub(super) permanent: bool,
}

/// What it means that a message was not written for this reason.
pub(super) fn fault(error: RDKafkaErrorCode) -> Fault {
    use RDKafkaErrorCode as E;
    let (whose, code, permanent) = match error {
        // Topics are often made later than those who write to them.
        E::UnknownTopic | E::UnknownTopicOrPartition | E::UnknownPartition | E::UnknownTopicId => {
            (Whose::Topic, code::NO_TOPIC, false)
        }
        E::TopicAuthorizationFailed => (Whose::Topic, code::FORBIDDEN, false),
        E::InvalidTopic => (Whose::Message, code::UNFIT, true),
        // The broker weighs and checks what was sent in one request, not the single message.
        E::MessageSizeTooLarge | E::MessageBatchTooLarge | E::InvalidMessageSize => {
            (Whose::Neighbours, code::TOO_LARGE, true)
        }
        E::InvalidRecord | E::InvalidTimestamp | E::UnsupportedForMessageFormat => {
            (Whose::Neighbours, code::UNFIT, true)
        }
        E::InvalidDifferentRecord | E::InvalidMessage => (Whose::Neighbours, code::UNFIT, false),
        E::ClusterAuthorizationFailed
        | E::TransactionalIdAuthorizationFailed
        | E::SaslAuthenticationFailed
        | E::Authentication
        | E::UnsupportedSASLMechanism
        | E::IllegalSASLState
        | E::SecurityDisabled => (Whose::Sink, code::FORBIDDEN, false),
        E::MessageTimedOut | E::OperationTimedOut | E::TimedOutQueue | E::RequestTimedOut => {
            (Whose::Sink, code::TIMEOUT, false)
        }
        // The cluster answers, and cannot write anything for anybody.
        E::NotEnoughReplicas
        | E::NotEnoughReplicasAfterAppend
        | E::KafkaStorageError
        | E::ThrottlingQuotaExceeded
        | E::UnsupportedCompressionType
        | E::UnsupportedVersion
        | E::InvalidRequiredAcks => (Whose::Sink, code::REFUSED, false),
        E::LeaderNotAvailable
        | E::NotLeaderForPartition
        | E::BrokerNotAvailable
        | E::ReplicaNotAvailable
        | E::NetworkException
        | E::FencedLeaderEpoch
        | E::UnknownLeaderEpoch
        | E::StaleBrokerEpoch
        | E::CoordinatorLoadInProgress
        | E::CoordinatorNotAvailable
        | E::NotCoordinator
        // The producer lost its numbers: it is made anew.
        | E::OutOfOrderSequenceNumber
        | E::DuplicateSequenceNumber
        | E::InvalidProducerEpoch
        | E::InvalidProducerIdMapping
        | E::UnknownProducerId
        | E::ProducerFenced
        | E::Unknown => (Whose::Sink, code::UNREACHABLE, false),
        // Below zero are the client's own, all about the way to the broker.
        local if (local as i32) < 0 => (Whose::Sink, code::UNREACHABLE, false),
        _ => (Whose::Neighbours, code::REFUSED, false),
    };
    Fault { whose, code, permanent }
}

/// The code inside of an error of the client.
pub(super) fn code_of(error: &KafkaError) -> RDKafkaErrorCode {
    error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)
}

/// The code in words, for a person.
pub(super) fn words(error: RDKafkaErrorCode) -> String {
    match error {
        RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition => {
            "the topic does not exist; create it, and it goes on by itself".to_owned()
        }
        RDKafkaErrorCode::TopicAuthorizationFailed => {
            "the user may not write to this topic; grant it, and it goes on by itself".to_owned()
        }
        RDKafkaErrorCode::MessageSizeTooLarge => {
            "the broker takes no record of this size; raise max.message.bytes of the topic".to_owned()
        }
        RDKafkaErrorCode::InvalidRecord => {
            "the broker says that the record is invalid; a compacted topic wants a key".to_owned()
        }
        other => {
            let text = other.to_string();
            let inside = text.split_once('(').and_then(|(_, inside)| inside.strip_suffix(')'));
            inside.map_or(text.clone(), str::to_owned)
        }
    }
}

/// Why the client could not be made; its own words do not repeat the values that it was given.
pub(super) fn setup_words(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientCreation(words) => words.clone(),
        KafkaError::ClientConfig(_, words, key, _) => format!("{key}: {words}"),
        other => other.to_string(),
    }
}

/// A cause as an error, for whoever connects by hand.
pub(super) fn into_error(cause: &Cause) -> Error {
    let kind = match cause.code.as_ref() {
        code::FORBIDDEN => ErrorKind::Denied,
        code::TIMEOUT => ErrorKind::Timeout,
        code::REFUSED => ErrorKind::Busy,
        code::NO_TOPIC | code::UNFIT => ErrorKind::Config,
        _ => ErrorKind::Unreachable,
    };
    Error::new(kind, cause.detail.clone())
}

#[cfg(test)]
mod tests {
    use RDKafkaErrorCode as E;

    use super::*;

    #[test]
    fn an_outage_is_no_fault_of_a_message() {
        for error in
            [E::AllBrokersDown, E::BrokerTransportFailure, E::Resolve, E::PurgeQueue, E::Fatal, E::SSL]
        {
            assert_eq!(
                (fault(error).whose, fault(error).code),
                (Whose::Sink, code::UNREACHABLE),
                "{error:?}"
            );
        }
        assert_eq!(fault(E::MessageTimedOut).code, code::TIMEOUT);
        assert_eq!(fault(E::ClusterAuthorizationFailed).whose, Whose::Sink);
        assert_eq!(fault(E::TopicAuthorizationFailed).whose, Whose::Topic);
    }

    #[test]
    fn only_what_waiting_cannot_mend_is_permanent() {
        for error in [E::MessageSizeTooLarge, E::InvalidRecord, E::InvalidTopic] {
            assert!(fault(error).permanent, "{error:?}");
        }
        for error in [E::UnknownTopic, E::TopicAuthorizationFailed, E::PolicyViolation, E::InvalidMessage] {
            assert!(!fault(error).permanent, "{error:?}");
        }
    }

    #[test]
    fn words_are_for_people() {
        assert!(words(E::UnknownTopicOrPartition).contains("does not exist"));
        let told = words(E::NotEnoughReplicas);
        assert!(told.contains("replicas") && !told.contains("NotEnoughReplicas"), "{told}");
    }
}
