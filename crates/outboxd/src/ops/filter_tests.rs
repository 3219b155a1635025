use super::*;

fn read(text: &str) -> Selection {
    Selection::parse(text).unwrap_or_else(|trouble| panic!("{text}: {trouble}"))
}

#[test]
fn every_term_is_read_and_written_back() {
    let text = "type:order.* key:42 id:m-1 pipe:relay state:dead code:NO_ROUTE header.x-saga-id:s7";
    let all = read(text);
    assert_eq!(all.kind.as_deref(), Some("order.*"));
    assert_eq!((all.key.as_deref(), all.id.as_deref()), (Some("42"), Some("m-1")));
    assert_eq!((all.pipe.as_deref(), all.state), (Some("relay"), Some(Stand::Dead)));
    assert_eq!(all.code.as_deref(), Some("NO_ROUTE"));
    assert_eq!(all.header, Some(("x-saga-id".to_owned(), "s7".to_owned())));
    assert_eq!(all.to_string(), text);
    assert_eq!(read("  \t "), Selection::default());
    assert_eq!(Selection::default().to_string(), "");
}

#[test]
fn whatever_a_value_holds_is_written_so_that_it_is_read_again() {
    for value in ["a b", "", "say \"hi\"", "back\\slash", "a:b", "☃ ü", " ", "\"", "\n", "x\"y z:"] {
        let one = Selection { key: Some(value.to_owned()), ..Selection::default() };
        assert_eq!(read(&one.to_string()), one, "{one}");
        if !value.is_empty() {
            let header = Some((value.to_owned(), value.to_owned()));
            let one = Selection { header, kind: Some(value.to_owned()), ..Selection::default() };
            assert_eq!(read(&one.to_string()), one, "{one}");
        }
    }
    // Within a plain value only a space ends it.
    assert_eq!(read("key:urn:order:7").key.as_deref(), Some("urn:order:7"));
    assert_eq!(read("key:a\"b").key.as_deref(), Some("a\"b"));
}

#[test]
fn what_is_wrong_is_told_with_its_place_and_the_way_out() {
    for (text, told, help) in [
        ("key:1 typ:a", "the filter, at character 7: there is no term 'typ'", "did you mean 'type'?"),
        ("ü:1", "the filter, at character 1: there is no term 'ü'", "known are: type, key, id, pipe, state"),
        ("order-7", "at character 1: 'order-7' is no term", "write NAME:VALUE"),
        ("state:daed", "at character 1: there is no state 'daed'", "did you mean 'dead'?"),
        ("key: type:a", "at character 1: 'key' has no value", "an empty one is \"\""),
        ("key:\"a", "at character 5: a quote is not closed", "end it with \""),
        ("key:\"a\"b", "at character 8: a quoted value has ended", "put a space"),
        ("header.:1", "at character 1: a header needs its name", "header.NAME:VALUE"),
        ("key:1 key:2", "at character 7: 'key' cannot be both '1' and '2'", "ask for one key"),
        ("state:dead state:done", "'state' cannot be both 'dead' and 'done'", "ask for one state"),
        ("header.a:1 header.b:2", "'header.a' and 'header.b' cannot both", "ask for one header"),
        ("key:a\0b", "at character 1: a NUL character matches nothing", "leave it out"),
        (":x", "at character 1: there is no term ''", "known are"),
    ] {
        let trouble = Selection::parse(text).expect_err(text);
        assert!(trouble.to_string().contains(told), "{text}: {trouble}");
        assert!(trouble.help().contains(help), "{text}: {}", trouble.help());
    }
    assert_eq!(read("key:1 key:1").key.as_deref(), Some("1"), "saying it twice is no contradiction");
}

#[test]
fn the_record_has_what_was_set() {
    let record = read("type:a state:dead header.h:v").to_json(Some("orders"));
    let expected = json!({ "source": "orders", "state": "dead", "type": "a", "header": ["h", "v"] });
    assert_eq!(record, expected);
}
