//! How long tokens are kept, who asks for the next, and what happens when there is none.

use super::super::vault::{Key, NoToken, Token, Vault};
use super::*;
use futures_util::future::join_all;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::advance;

fn lasting(text: &str, seconds: u64) -> Token {
    Token::new(text.to_owned(), Some(Duration::from_secs(seconds))).unwrap()
}

fn text(token: &Arc<Token>) -> &str {
    token.header().to_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn one_asks_and_all_others_wait() {
    let (vault, asked) = (Vault::default(), AtomicUsize::new(0));
    let get = || {
        vault.token(Key::Ourselves, None, || async {
            asked.fetch_add(1, Ordering::SeqCst);
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
            Ok(lasting("t", 100))
        })
    };
    let all = join_all((0..100).map(|_| get())).await;
    assert!(all.iter().all(|token| token.as_ref().is_ok_and(|token| text(token) == "Bearer t")));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_token_is_asked_for_while_the_last_is_good() {
    let (vault, begun, go) = (Vault::default(), Notify::new(), Notify::new());
    let first = vault.token(Key::Ourselves, None, || async { Ok(lasting("one", 1000)) }).await.unwrap();
    advance(Duration::from_secs(939)).await;
    let fresh = vault.token(Key::Ourselves, None, || async { panic!("it is fresh") }).await.unwrap();
    assert!(Arc::ptr_eq(&first, &fresh));
    advance(Duration::from_secs(2)).await;
    let asking = vault.token(Key::Ourselves, None, || async {
        begun.notify_one();
        go.notified().await;
        Ok(lasting("two", 1000))
    });
    let others = async {
        begun.notified().await;
        let other = vault.token(Key::Ourselves, None, || async { panic!("somebody asks already") }).await;
        assert_eq!(text(&other.unwrap()), "Bearer one", "it is good for a while");
        go.notify_one();
    };
    let (second, ()) = tokio::join!(asking, others);
    assert_eq!(text(&second.unwrap()), "Bearer two");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_left_alone_and_the_last_token_used_to_its_end() {
    let (vault, asked) = (Vault::default(), AtomicUsize::new(0));
    vault.token(Key::Ourselves, None, || async { Ok(lasting("one", 1000)) }).await.unwrap();
    let get = || {
        vault.token(Key::Ourselves, None, || async {
            asked.fetch_add(1, Ordering::SeqCst);
            Err(NoToken::new("down"))
        })
    };
    advance(Duration::from_secs(941)).await;
    for _ in 0..10 {
        assert_eq!(text(&get().await.unwrap()), "Bearer one");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    advance(Duration::from_secs(60)).await;
    let end = get().await.unwrap_err();
    assert!(end.words == "down" && end.is_new);
    for _ in 0..10 {
        assert_eq!(get().await.unwrap_err(), NoToken { words: "down", is_new: false });
    }
    // 1, 2, 4 … 30 s between: in ten minutes it is asked some 25 times, not thousands.
    let before = asked.load(Ordering::SeqCst);
    for _ in 0..1200 {
        advance(Duration::from_millis(500)).await;
        assert!(get().await.is_err());
    }
    let often = asked.load(Ordering::SeqCst) - before;
    assert!((15..=30).contains(&often), "{often}");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever_for_one_who_does_not_come_back() {
    let vault = Vault::default();
    let get = || vault.token(Key::Ourselves, None, std::future::pending);
    let both = async { tokio::join!(get(), get()) };
    let (first, second) = both.await;
    assert_eq!(first.err().unwrap().words, "its token server did not answer in time");
    assert_eq!(second.err().unwrap().words, "its token server did not answer in time");
    // Whoever leaves half-way leaves it to the next.
    let vault = Vault::default();
    let left = vault.token(Key::Ourselves, None, std::future::pending);
    assert!(tokio::time::timeout(Duration::from_secs(1), left).await.is_err());
    let next = vault.token(Key::Ourselves, None, || async { Ok(lasting("t", 100)) }).await;
    assert_eq!(text(&next.unwrap()), "Bearer t");
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_refused_is_asked_for_anew_unless_it_is_young() {
    let vault = Vault::default();
    let token = vault.token(Key::Ourselves, None, || async { Ok(lasting("one", 1000)) }).await.unwrap();
    let young = vault.token(Key::Ourselves, Some(&token), || async { panic!("in vain") }).await;
    assert_eq!(young.err().unwrap().words, "it does not accept our token");
    advance(Duration::from_secs(6)).await;
    let get = || vault.token(Key::Ourselves, Some(&token), || async { Ok(lasting("two", 1000)) });
    let (one, other) = tokio::join!(get(), get());
    assert!(Arc::ptr_eq(&one.unwrap(), &other.unwrap()), "many are refused at once: one asks");
}

#[tokio::test(start_paused = true)]
async fn tokens_of_a_few_thousand_callers_are_kept_those_used_last() {
    let vault = Vault::default();
    let key = |number: usize| Key::of(&caller(&format!("user-{number}"), None), "bearer");
    assert_ne!(key(1), key(2));
    assert_ne!(Key::of(&caller("a", None), "bc"), Key::of(&caller("ab", None), "c"));
    let get = |number| vault.token(key(number), None, || async { Ok(lasting("t", 10_000)) });
    for number in 0..4096 {
        get(number).await.unwrap();
        advance(Duration::from_millis(1)).await;
    }
    get(0).await.unwrap();
    advance(Duration::from_millis(1)).await;
    get(4096).await.unwrap();
    let kept = vault.token(key(0), None, || async { panic!("it was used a moment ago") }).await;
    assert!(kept.is_ok());
    let asked = AtomicUsize::new(0);
    let again = vault.token(key(1), None, || async {
        asked.fetch_add(1, Ordering::SeqCst);
        Ok(lasting("t", 1))
    });
    assert!(again.await.is_ok() && asked.load(Ordering::SeqCst) == 1, "the one used longest ago is gone");
    assert!(vault.texts().len() <= 64);
}
