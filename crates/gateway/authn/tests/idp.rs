//! An issuer on this machine: answers by path, and what it was asked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

#[derive(Clone, Default)]
struct Said {
    answers: Arc<Mutex<HashMap<String, (u16, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

/// A running one; it ends with the test.
pub(super) struct Idp {
    pub(super) url: String,
    said: Said,
}

impl Idp {
    pub(super) async fn start() -> Idp {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let said = Said::default();
        let serving = said.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, serving.clone()));
            }
        });
        Idp { url, said }
    }

    /// What it answers at this path from now on; 404 elsewhere.
    pub(super) fn says(&self, path: &str, status: u16, body: impl ToString) {
        self.said.answers.lock().unwrap().insert(path.to_owned(), (status, body.to_string()));
    }

    /// The requests, each with its path, its headers and its body.
    pub(super) fn asked(&self, path: &str) -> Vec<String> {
        let line = |request: &&String| request.split(' ').nth(1) == Some(path);
        self.said.asked.lock().unwrap().iter().filter(line).cloned().collect()
    }
}

async fn answer(stream: TcpStream, said: Said) {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if stream.read_line(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let length =
        request.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body).await.unwrap();
    request.push_str(std::str::from_utf8(&body).unwrap());
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    said.asked.lock().unwrap().push(request);
    let found = said.answers.lock().unwrap().get(&path).cloned();
    let (status, body) = found.unwrap_or((404, String::new()));
    let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
}
