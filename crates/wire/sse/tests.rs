//! Tests: every spelling of an event stream.

use expect_test::expect;
use proptest::prelude::*;

use super::*;
use crate::spelled::{Spelling, cases, tree};

fn decode(stream: &[u8], chunk: usize) -> Vec<Event> {
    let mut decoder = Decoder::new(1 << 20);
    stream.chunks(chunk).flat_map(|chunk| decoder.push(chunk).unwrap()).collect()
}

fn events(stream: &str) -> String {
    let show = |event: Event| {
        let data = String::from_utf8_lossy(&event.data).escape_debug().to_string();
        format!("{} {:?} {data}\n", event.name, event.id.as_deref().unwrap_or("-"))
    };
    decode(stream.as_bytes(), 3).into_iter().map(show).collect()
}

#[test]
fn an_event_has_one_data_line() {
    let message = Pieces::one("{\"a\":\n\"\\n\u{2028}\"}".into());
    assert_eq!(event(&message, None).join(), "data: {\"a\": \"\\n\u{2028}\"}\n\n");
    assert_eq!(event(&message, Some("7-3")).join(), "id: 7-3\ndata: {\"a\": \"\\n\u{2028}\"}\n\n");
    assert_eq!(event(&Pieces::default(), Some("a\nid: b\r\0")).join(), "id: aid: b\ndata: \n\n");
    assert_eq!(decode(KEEP_ALIVE, 5), []);
}

#[test]
fn a_long_id_is_not_copied_into_every_event() {
    let stream = format!("id: 7\ndata: a\n\nid: {}\ndata: b\n\ndata: c\n\n", "x".repeat(1 << 16));
    let ids: Vec<_> = decode(stream.as_bytes(), 1000).into_iter().map(|event| event.id).collect();
    assert_eq!(ids, [Some("7".into()), Some("7".into()), Some("7".into())]);
}

#[test]
fn the_parts_of_a_message_are_shared_with_its_event() {
    let large = Bytes::from(vec![b'1'; 1 << 20]);
    let sent = event(&Pieces::one(large.clone()), None);
    assert!(sent.iter().any(|piece| piece.as_ptr() == large.as_ptr()));
}

#[test]
fn a_stream_is_read_as_browsers_read_it() {
    let streams = [
        "data: 1\n\n",
        "data:1\n\ndata:  2\n\n",
        "data\n\n",
        "data: a\ndata: b\ndata:\n\n",
        "event: endpoint\ndata: /x\n\n",
        "event:\ndata: 1\n\n",
        ": comment\ndata: 1\n:\n\n",
        "id: 5\n\ndata: later\n\n",
        "id: 5\ndata:\n\n",
        "id: 5\ndata: 1\n\nid\ndata: 2\n\n",
        "id: a\0b\ndata: 1\n\n",
        "retry: 10\nunknown: x\ndata: 1\n\n",
        "data: 1\n\n\n\ndata: 2\n\n",
        "event: x\n\ndata: 1\n\n",
        "data: unfinished\n",
        "\u{feff}data: 1\n\n",
        "\u{feff}\u{feff}data: 1\n\n",
        "data: 1\r\rdata: 2\r\n\r\ndata: 3\n\n",
        "data: a: b:c\n\n",
        "Data: 1\n\n",
    ];
    let table: String = streams.iter().map(|stream| format!("{:?}\n{}", stream, events(stream))).collect();
    expect![[r#"
        "data: 1\n\n"
        message "-" 1
        "data:1\n\ndata:  2\n\n"
        message "-" 1
        message "-"  2
        "data\n\n"
        message "-" 
        "data: a\ndata: b\ndata:\n\n"
        message "-" a\nb\n
        "event: endpoint\ndata: /x\n\n"
        endpoint "-" /x
        "event:\ndata: 1\n\n"
        message "-" 1
        ": comment\ndata: 1\n:\n\n"
        message "-" 1
        "id: 5\n\ndata: later\n\n"
        message "5" later
        "id: 5\ndata:\n\n"
        message "5" 
        "id: 5\ndata: 1\n\nid\ndata: 2\n\n"
        message "5" 1
        message "-" 2
        "id: a\0b\ndata: 1\n\n"
        message "-" 1
        "retry: 10\nunknown: x\ndata: 1\n\n"
        message "-" 1
        "data: 1\n\n\n\ndata: 2\n\n"
        message "-" 1
        message "-" 2
        "event: x\n\ndata: 1\n\n"
        message "-" 1
        "data: unfinished\n"
        "\u{feff}data: 1\n\n"
        message "-" 1
        "\u{feff}\u{feff}data: 1\n\n"
        "data: 1\r\rdata: 2\r\n\r\ndata: 3\n\n"
        message "-" 1
        message "-" 2
        message "-" 3
        "data: a: b:c\n\n"
        message "-" a: b:c
        "Data: 1\n\n"
    "#]]
    .assert_eq(&table);
}

#[test]
fn retry_and_last_id_are_kept() {
    let mut decoder = Decoder::new(100);
    decoder
        .push(b"retry: 500\nid: 1\n\nretry: x\nretry: 99999999999999999999999\nid: 2\ndata: 1\n\n")
        .unwrap();
    assert_eq!((decoder.retry(), decoder.last_id()), (Some(500), Some("2")));
}

#[test]
fn an_event_has_a_limit_and_a_stream_has_none() {
    let mut decoder = Decoder::new(20);
    for _ in 0..100 {
        assert_eq!(decoder.push(b"data: 1234567890\n\n").unwrap().len(), 1);
        assert_eq!(decoder.push(b": 12345678901234567\n").unwrap(), []);
    }
    let too_large = SseError::TooLarge { limit: 20 };
    assert_eq!(decoder.clone().push(b"data: 1234567890123456789").unwrap_err(), too_large);
    assert_eq!(decoder.clone().push(b"data: 12345678\ndata: 12345678\n").unwrap_err(), too_large);
    assert_eq!(
        decoder
            .push(b"data: \ndata: \ndata: \ndata: \ndata: \ndata: \ndata: \ndata: \n")
            .map(|events| events.len()),
        Ok(0)
    );
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn what_is_encoded_is_decoded_in_any_chunks(
        trees in prop::collection::vec(tree(), 0..5), seed: u64, chunk in 1..200_usize, end in prop::sample::select(vec!["\n", "\r", "\r\n"]),
        is_marked: bool, has_comments: bool,
    ) {
        let texts: Vec<String> = trees.iter().map(|tree| Spelling::on_one_line(seed).tree(tree)).collect();
        let mut stream = String::from(if is_marked { "\u{feff}" } else { "" });
        for (number, text) in texts.iter().enumerate() {
            let sent = event(&Pieces::one(text.clone().into()), Some(&number.to_string())).join();
            stream.push_str(std::str::from_utf8(&sent).unwrap());
            stream.push_str(if has_comments { ": ping\n\n" } else { "" });
        }
        let expected: Vec<Event> = texts.iter().enumerate().map(|(number, text)| Event {
            name: "message".into(), data: text.clone().into(), id: Some(number.to_string().into()),
        }).collect();
        prop_assert_eq!(decode(stream.replace('\n', end).as_bytes(), chunk), expected);
    }
}

#[test]
fn a_priming_event_has_an_id_a_delay_and_nothing_to_say() {
    let mut decoder = Decoder::new(1024);
    let events = decoder.push(&priming("1-0\n\r\0x", 1000).join()).unwrap();
    assert_eq!((events.len(), events[0].data.is_empty()), (1, true));
    assert_eq!((events[0].id.as_deref(), decoder.retry()), (Some("1-0x"), Some(1000)));
}
