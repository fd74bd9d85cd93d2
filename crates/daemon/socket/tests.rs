//! Tests: when a connection rests, and how it goes on.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use super::*;
use crate::framing::Spoken;

const HEAD: &[u8] = b"GET / HTTP/1.1\r\nhost: h\r\n\r\n";

fn start() -> (DuplexStream, Socket<DuplexStream>, Arc<Activity>) {
    let (client, server) = duplex(1024);
    let activity = Arc::new(Activity::default());
    let framing = Framing::new(Spoken::One);
    (client, Socket::new(server, Arc::clone(&activity), framing, CancellationToken::new()), activity)
}

/// Waits as the library does until it is told to rest.
async fn idle(socket: &mut Socket<DuplexStream>, activity: &Activity) {
    poll_fn(|cx| {
        let mut bytes = [0; 64];
        let read = Pin::new(&mut *socket).poll_read(cx, &mut ReadBuf::new(&mut bytes));
        assert!(read.is_pending(), "{read:?}");
        if activity.is_idle() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_rests_and_goes_on_with_the_next_request() {
    let (mut client, mut socket, activity) = start();
    for _ in 0..2 {
        client.write_all(HEAD).await.unwrap();
        assert_eq!(socket.begun().await.unwrap(), Some(false));
        assert!(!activity.is_idle());
        let mut head = vec![0; HEAD.len()];
        socket.read_exact(&mut head).await.unwrap();
        assert_eq!(head, HEAD);
        drop(activity.answer());
        idle(&mut socket, &activity).await;
    }
    drop(client);
    assert_eq!(socket.begun().await.unwrap(), None);
}

#[tokio::test]
async fn what_the_library_did_not_look_at_comes_again_before_what_follows() {
    let (mut client, mut socket, _activity) = start();
    client.write_all(&[HEAD, HEAD].concat()).await.unwrap();
    socket.begun().await.unwrap();
    let mut first = vec![0; HEAD.len()];
    socket.read_exact(&mut first).await.unwrap();
    socket.take_back(&first);
    let mut both = vec![0; 2 * HEAD.len()];
    socket.read_exact(&mut both).await.unwrap();
    assert_eq!(both, [HEAD, HEAD].concat());
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_left_alone_with_half_an_answer() {
    let (mut client, mut socket, activity) = start();
    client.write_all(HEAD).await.unwrap();
    socket.read_exact(&mut vec![0; HEAD.len()]).await.unwrap();
    drop(activity.answer());
    let writes = socket.write_all(&[b'x'; 2048]);
    assert!(tokio::time::timeout(REST_TIME, writes).await.is_err());
    let rests = idle(&mut socket, &activity);
    assert!(tokio::time::timeout(2 * REST_TIME, rests).await.is_err());
}
