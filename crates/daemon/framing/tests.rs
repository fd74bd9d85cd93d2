//! Tests: where requests begin and end, and what is refused before the HTTP library sees it.

use super::*;

const POST: &str = "POST /mcp HTTP/1.1\r\nhost: h\r\n";

/// What becomes of bytes: the status of the refusal, 0 for a body that breaks, else how many were let through. The same
/// whether they come at once or one by one.
fn read(bytes: &[u8]) -> Result<usize, u16> {
    let at_once = feed(bytes, bytes.len());
    assert_eq!(feed(bytes, 1), at_once, "{:?}", String::from_utf8_lossy(bytes));
    at_once
}

fn feed(bytes: &[u8], piece: usize) -> Result<usize, u16> {
    let mut framing = Framing::new(Spoken::One);
    let (mut through, mut come) = (0, 0);
    loop {
        let step = framing.advance(&bytes[through..come]).map_err(|broken| match broken {
            Broken::Head(refusal) => refusal.status(),
            Broken::Body => 0,
        })?;
        through += step;
        if step == 0 && come == bytes.len() {
            return Ok(through);
        }
        if step == 0 {
            come = (come + piece).min(bytes.len());
        }
    }
}

fn posted(rest: &str) -> Result<usize, u16> {
    read(format!("{POST}{rest}").as_bytes()).map(|through| through - POST.len())
}

#[test]
fn a_whole_head_is_let_through_and_half_of_one_is_not() {
    for (bytes, through) in [
        ("", 0),
        ("GET / HT", 0),
        ("GET / HTTP/1.1\r\nhost: h\r\n", 0),
        ("GET / HTTP/1.1\r\nhost: h\r\n\r", 0),
        ("GET / HTTP/1.1\r\n\r\n", 18),
        ("\r\nGET / HTTP/1.1\r\n\r\n", 20),
        ("GET / HTTP/1.0\r\n\r\nGET / HT", 18),
        ("GET http://h:80/?a=b HTTP/1.1\r\nx:\r\ny:  z \t\r\n\r\n", 46),
    ] {
        assert_eq!(read(bytes.as_bytes()), Ok(through), "{bytes:?}");
    }
}

#[test]
fn what_follows_a_head_is_its_body_and_then_the_next_head() {
    for (rest, through) in [
        ("\r\nGET / HTTP/1.1\r\n\r\nGET", 2 + 18),
        ("content-length: 0\r\n\r\nGET", 21),
        ("content-length: 3\r\n\r\nGETGET", 21 + 3),
        ("content-length: 003\r\n\r\nGE", 23 + 2),
        ("content-length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\nGET", 21 + 3 + 18),
        ("Expect: 100-Continue\r\ncontent-length: 3\r\n\r\nabc", 43 + 3),
    ] {
        assert_eq!(posted(rest), Ok(through), "{rest:?}");
    }
    let chunked = "transfer-encoding: Chunked\r\n\r\n";
    for (body, through) in [
        ("0\r\n\r\nGET", 5),
        ("3\r\nabc\r\n0\r\n\r\n", 13),
        ("00A;x=\"y\"\r\n\r\n12345678\r\n0\r\nx: y\r\n\r\nGET / HTTP/1.1\r\n\r\nx", 52),
        ("5\r\nab", 5),
    ] {
        assert_eq!(posted(&format!("{chunked}{body}")), Ok(chunked.len() + through), "{body:?}");
    }
}

#[test]
fn a_length_that_two_readers_could_read_in_two_ways_is_refused() {
    for (rest, status) in [
        ("content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("transfer-encoding:\tchunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", 400),
        ("content-length: 5\r\ncontent-length: 6\r\n\r\nhello", 400),
        ("content-length: 5\r\ncontent-length: 5\r\n\r\nhello", 400),
        ("content-length: 5, 5\r\n\r\nhello", 400),
        ("content-length: -1\r\n\r\n", 400),
        ("content-length: +5\r\n\r\nhello", 400),
        ("content-length: 0x5\r\n\r\nhello", 400),
        ("content-length: 5 5\r\n\r\nhello", 400),
        ("content-length:\r\n\r\nhello", 400),
        ("content-length: 99999999999999999999\r\n\r\n", 413),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        ("transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n", 400),
        ("transfer-encoding: xchunked\r\n\r\n", 501),
        ("transfer-encoding: gzip, chunked\r\n\r\n", 501),
        ("transfer-encoding: chunked, chunked\r\n\r\n", 501),
        ("transfer-encoding:\r\n\r\n", 501),
        ("transfer-encoding : chunked\r\n\r\n0\r\n\r\n", 400),
        ("transfer-encoding\t: chunked\r\n\r\n0\r\n\r\n", 400),
        ("transfer-encoding\u{b}: chunked\r\n\r\n0\r\n\r\n", 400),
        ("expect: 200-ok\r\ncontent-length: 1\r\n\r\nx", 417),
    ] {
        assert_eq!(posted(rest), Err(status), "{rest:?}");
    }
    let old = b"POST / HTTP/1.0\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_eq!(read(old), Err(400));
}

#[test]
fn a_head_that_is_not_to_the_letter_is_refused() {
    for (rest, status) in [
        ("x: a\n\r\n", 400),
        ("x: a\r\n\n", 400),
        ("x: a\rb: c\r\n\r\n", 400),
        ("x: a\r\n b\r\n\r\n", 400),
        ("x: a\r\n\tb\r\n\r\n", 400),
        ("x\r\n\r\n", 400),
        (": a\r\n\r\n", 400),
        ("a b: c\r\n\r\n", 400),
        ("x: a\0b\r\n\r\n", 400),
        ("x: \u{1b}[2J\r\n\r\n", 400),
    ] {
        assert_eq!(posted(rest), Err(status), "{rest:?}");
    }
    for (line, status) in [
        ("GET /mcp", 400),
        ("GET  /mcp HTTP/1.1", 400),
        (" GET /mcp HTTP/1.1", 400),
        ("GET /mcp HTTP/1.1 ", 400),
        ("GET /a b HTTP/1.1", 400),
        ("GET\t/mcp HTTP/1.1", 400),
        ("GET /mcp#x HTTP/1.1", 400),
        ("GET /\u{7f} HTTP/1.1", 400),
        ("GET /ä HTTP/1.1", 400),
        ("G@T /mcp HTTP/1.1", 400),
        ("GET /mcp HTTP/0.9", 505),
        ("GET /mcp HTTP/9.9", 505),
        ("GET /mcp http/1.1", 505),
        ("GET /mcp HTTP/1.11", 505),
        ("PRI * HTTP/2.0", 505),
    ] {
        assert_eq!(read(format!("{line}\r\nhost: h\r\n\r\n").as_bytes()), Err(status), "{line:?}");
    }
    assert_eq!(read(b"GET /mcp HTTP/1.1\nhost: h\n\n"), Err(400), "bare line feeds");
    assert_eq!(read(b"GET /mcp\r\n"), Err(400), "told at once, not when the head has ended");
}

#[test]
fn a_chunk_that_is_not_to_the_letter_breaks_the_body() {
    for body in [
        "zz\r\n",
        "\r\n",
        ";x\r\n",
        "-1\r\n",
        "0x3\r\nabc\r\n",
        "3 \r\nabc\r\n",
        "3\nabc\r\n",
        "3\rabc\r\n",
        "3;a\nb\r\nabc\r\n",
        "3\r\nabcd\r\n",
        "3\r\nabc\n0\r\n\r\n",
        "fffffffffffffffff\r\n",
        "0\r\nx: y\n\r\n",
        "0\r\n\n",
    ] {
        assert_eq!(posted(&format!("transfer-encoding: chunked\r\n\r\n{body}")), Err(0), "{body:?}");
    }
    let extension = format!("3;{}\r\nabc\r\n", "x".repeat(CHUNK_EXTRAS));
    let trailers = format!("0\r\n{}\r\n", "x: y\r\n".repeat(CHUNK_EXTRAS / 4 + 1));
    let many = "1;x\r\na\r\n".repeat(CHUNK_EXTRAS);
    for body in [extension, trailers, many] {
        let bytes = format!("{POST}transfer-encoding: chunked\r\n\r\n{body}");
        assert_eq!(feed(bytes.as_bytes(), 4096), Err(0));
    }
}

#[test]
fn a_head_has_bounds() {
    let long = |length: usize| "a".repeat(length);
    for (bytes, status) in [
        (format!("GET /{}", long(HEAD_BYTES)), 414),
        (format!("GET /{} HTTP/1.1\r\n\r\n", long(HEAD_BYTES)), 414),
        (format!("\r\nGET /{}", long(HEAD_BYTES)), 414),
        (format!("{POST}x: {}", long(HEAD_BYTES)), 431),
        (format!("{POST}x: {}\r\n\r\n", long(HEAD_BYTES)), 431),
        (format!("{POST}{}\r\n", "x: y\r\n".repeat(HEAD_FIELDS)), 431),
        (format!("{POST}{}", "x: y\r\n".repeat(HEAD_FIELDS)), 431),
    ] {
        assert_eq!(feed(bytes.as_bytes(), 4096), Err(status), "{}", bytes.get(..40).unwrap());
    }
    let most = format!("{POST}{}\r\n", "x: y\r\n".repeat(HEAD_FIELDS - 1));
    assert_eq!(feed(most.as_bytes(), 4096), Ok(most.len()));
}

#[test]
fn a_broken_request_does_not_take_the_one_before_it_along() {
    let mut framing = Framing::new(Spoken::One);
    let good = format!("{POST}content-length: 1\r\n\r\nx");
    let both = format!("{good}GET / HTTP/1.1\r\nbad\r\n\r\n");
    assert_eq!(framing.advance(both.as_bytes()).unwrap(), good.len());
    for _ in 0..2 {
        let broken = framing.advance(&both.as_bytes()[good.len()..]).unwrap_err();
        assert!(matches!(broken, Broken::Head(_)), "{broken:?}");
    }
}

#[test]
fn another_version_is_spoken_when_it_may_be() {
    let two = [PREFACE, b"\0\0\0\x04\0\0\0\0\0"].concat();
    let mut framing = Framing::new(Spoken::OneOrTwo);
    assert_eq!(framing.advance(&two[..10]).unwrap(), 0);
    assert_eq!(framing.advance(&two).unwrap(), two.len());
    assert!(framing.is_multiplexed());
    let mut framing = Framing::new(Spoken::OneOrTwo);
    assert_eq!(framing.advance(b"P").unwrap(), 0);
    assert_eq!(framing.advance(b"POST / HTTP/1.1\r\n\r\n").unwrap(), 19);
    assert!(!framing.is_multiplexed());
    assert_eq!(read(&two), Err(505));
}
