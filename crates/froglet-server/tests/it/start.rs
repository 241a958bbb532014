//! Starting: what is refused, and with which words.

use froglet_server::config::Setting;
use froglet_server::{Server, ServerError};

use crate::support::{config, start};

async fn refused(config: froglet_server::Config) -> ServerError {
    Server::start(config).await.expect_err("refused")
}

#[tokio::test]
async fn a_second_server_on_a_directory_names_the_first() {
    let server = start().await;
    let error = refused(config(&server.dir)).await.to_string();
    let process = format!("process {}", std::process::id());
    assert!(error.contains(&process), "{error}");
}

#[tokio::test]
async fn a_taken_port_is_named_with_another() {
    let server = start().await;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(&dir);
    config.listen = server.server.address();
    let error = refused(config).await.to_string();
    assert!(error.contains(&server.server.address().to_string()), "{error}");
    assert!(error.contains("--listen 127.0.0.1:"), "{error}");
}

#[tokio::test]
async fn a_setting_that_does_not_exist_names_its_place() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(&dir);
    config.settings.push(Setting {
        name: "no_such_setting".to_owned(),
        value: "1".to_owned(),
        place: "froglet.toml:7".to_owned(),
    });
    let error = refused(config).await.to_string();
    assert!(error.starts_with("froglet.toml:7: "), "{error}");
    assert!(error.contains("no_such_setting"), "{error}");
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut config = config(&dir);
    config.data_dir = dir.path().join("file").join("below");
    std::fs::write(dir.path().join("file"), "").expect("written");
    let error = refused(config).await.to_string();
    assert!(error.contains("below"), "{error}");
}
