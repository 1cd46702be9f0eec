//! Rights to nodes, and passwords that stay secret.

use crate::kit::*;
use leasehold_conformance::proxy::Traffic;
use leasehold_core::{ErrorKind, LockAdmin, LockBackend, Renewal};
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Error, Permission};

fn url_with(server: &leasehold_test_stores::servers::ZooKeeperServer, login: &str) -> String {
    format!("zk://{login}@{}", server.address())
}

#[tokio::test]
async fn nodes_of_a_user_are_closed_to_other_users() {
    let server = server();
    let backend = backend(&url_with(&server, "app:canary"));
    hold(&backend, &claim("job")).await;
    let mine = Look::with_user(&server, Some("app:canary")).await;
    let node = mine.only_node("job").await;

    for user in [None, Some("app:other"), Some("other:canary")] {
        let look = Look::with_user(&server, user).await.0;
        let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
        assert_eq!(look.get_data(&node).await.unwrap_err(), Error::NoAuth);
        assert_eq!(look.set_data(&node, b"x", None).await.unwrap_err(), Error::NoAuth);
        assert_eq!(look.delete(&node, None).await.unwrap_err(), Error::NoAuth);
        assert_eq!(look.list_children(BASE).await.unwrap_err(), Error::NoAuth);
        assert_eq!(look.create(&format!("{BASE}/job/x"), b"", &options).await.unwrap_err(), Error::NoAuth);
        assert_eq!(look.delete(&format!("{BASE}/job"), None).await.unwrap_err(), Error::NoAuth);
    }
}

#[tokio::test]
async fn another_user_is_denied_and_leaves_nothing() {
    let server = server();
    let ours = backend(&url_with(&server, "app:canary"));
    let first = claim("job");
    hold(&ours, &first).await;

    let other = backend(&url_with(&server, "other:secret"));
    for lock in ["job", "new"] {
        let error = answered(other.try_acquire(&claim(lock))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        assert!(error.help().is_some());
    }
    assert_eq!(other.inspect(first.name()).await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(other.force_release(first.name(), None).await.unwrap_err().kind(), ErrorKind::Denied);

    let look = Look::with_user(&server, Some("app:canary")).await;
    look.only_node("job").await;
    assert_eq!(look.children(BASE).await, ["job"]);
}

/// A directory of a lock in which every client has this right, and the user `admin` all rights.
async fn open_for(server: &leasehold_test_stores::servers::ZooKeeperServer, permission: Permission) {
    let look = Look::at(server).await;
    look.make(BASE, CreateMode::Persistent).await;
    let path = format!("{BASE}/job");
    look.make(&path, CreateMode::Persistent).await;
    let everybody = Acl::new(permission, AuthId::anyone());
    let admin = Acl::new(Permission::ALL, AuthId::new("digest", &digest_of_admin(server).await));
    look.0.set_acl(&path, &[everybody, admin], None).await.unwrap();
}

/// The node of such a user must not stay: others would wait behind it.
#[tokio::test]
async fn user_that_may_create_but_not_list_is_denied_and_leaves_nothing() {
    let server = server();
    open_for(&server, Permission::CREATE | Permission::DELETE).await;
    let backend = backend(&server.url());
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let admin = Look::with_user(&server, Some("admin:admin")).await;
    assert_eq!(admin.line("job").await, [""; 0]);
}

#[tokio::test]
async fn node_that_may_not_be_deleted_ends_with_the_session() {
    let server = server();
    open_for(&server, Permission::CREATE).await;
    let backend = backend(&server.url());
    let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("in /leasehold/job blocks the lock"), "{error}");
    assert!(error.help().unwrap().contains("read, create and delete"), "{error:?}");
    backend.close().await.unwrap();
    let admin = Look::with_user(&server, Some("admin:admin")).await;
    assert_eq!(admin.line("job").await, [""; 0]);
}

#[tokio::test]
async fn waiter_that_is_refused_for_a_moment_keeps_its_place() {
    let server = server();
    let rights = Permission::READ | Permission::CREATE | Permission::DELETE;
    open_for(&server, rights).await;
    let admin = Look::with_user(&server, Some("admin:admin")).await;
    let allow = async |rights| {
        let acls = [Acl::new(rights, AuthId::anyone()), Acl::new(Permission::ALL, AuthId::authed())];
        admin.0.set_acl(&format!("{BASE}/job"), &acls, None).await.unwrap();
    };
    let (backend, holder) = (backend(&server.url()), claim("job"));
    let [first, second] = [(); 2].map(|()| claim("job"));
    hold(&backend, &holder).await;
    busy(&backend, &first).await;
    busy(&backend, &second).await;

    allow(Permission::CREATE | Permission::DELETE).await;
    release(&backend, &holder).await;
    changed(&backend, &first).await;
    let error = answered(backend.try_acquire(&first)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    allow(rights).await;

    within(std::time::Duration::from_secs(3), backend.changed(&first)).await;
    hold(&backend, &first).await;
    busy(&backend, &second).await;
}

/// The proof of a session is the delete of a node that does not exist. It must not depend on rights.
#[tokio::test]
async fn user_without_rights_above_the_directory_renews() {
    let eager = "-Dzookeeper.enableEagerACLCheck=true";
    let server = leasehold_test_stores::servers::ZooKeeperServer::start_with(&[eager]).unwrap();
    let (backend, first) = (backend(&server.url()), claim("job"));
    hold(&backend, &first).await;
    let admin = Acl::new(Permission::ALL, AuthId::new("digest", &digest_of_admin(&server).await));
    Look::at(&server).await.0.set_acl("/", &[admin], None).await.unwrap();
    assert_eq!(renew(&backend, &first).await.unwrap(), Renewal::Renewed);
}

/// The server checks the right to make a node before it checks whether the node exists.
#[tokio::test]
async fn init_finds_a_directory_that_it_could_not_make() {
    let server = server();
    let admin = Acl::new(Permission::ALL, AuthId::new("digest", &digest_of_admin(&server).await));
    let look = Look::with_user(&server, Some("admin:admin")).await;
    let backend = backend(&url_with(&server, "app:canary"));
    look.0.set_acl("/", std::slice::from_ref(&admin), None).await.unwrap();
    assert_eq!(backend.init().await.unwrap_err().kind(), ErrorKind::Denied);
    let findings = backend.check().await.unwrap();
    let trial = findings.iter().find(|finding| finding.code == "E_TRIAL").map(|finding| &*finding.message);
    let denied = "this user may not do that in the directory of the locks";
    assert_eq!(trial, Some(&*format!("a trial lock could not be acquired: {denied}")));
    let everybody = Acl::new(Permission::READ, AuthId::anyone());
    look.0.create(BASE, b"", &CreateMode::Persistent.with_acls(Acls::new(&[everybody]))).await.unwrap();
    backend.init().await.unwrap();
}

/// The directories of the locks were made beforehand. Their users may only read above these.
#[tokio::test]
async fn user_that_may_only_read_the_base_directory_renews() {
    for line in ["-Dzookeeper.enableEagerACLCheck=true", "-Dzookeeper.enableEagerACLCheck=false"] {
        let server = leasehold_test_stores::servers::ZooKeeperServer::start_with(&[line]).unwrap();
        open_for(&server, Permission::READ | Permission::CREATE | Permission::DELETE).await;
        let admin = Acl::new(Permission::ALL, AuthId::new("digest", &digest_of_admin(&server).await));
        let everybody = Acl::new(Permission::READ, AuthId::anyone());
        let look = Look::with_user(&server, Some("admin:admin")).await;
        for path in [BASE, "/"] {
            look.0.set_acl(path, &[everybody.clone(), admin.clone()], None).await.unwrap();
        }
        let (backend, first) = (backend(&server.url()), claim("job"));
        hold(&backend, &first).await;
        assert_eq!(renew(&backend, &first).await.unwrap(), Renewal::Renewed);
    }
}

/// By default every client may create nodes in the root, and in the directory of the locks.
#[tokio::test]
async fn directory_of_a_stranger_ends_no_hold() {
    let server = server();
    let (backend, first) = (backend(&server.url()), claim("job"));
    hold(&backend, &first).await;
    assert_eq!(renew(&backend, &first).await.unwrap(), Renewal::Renewed);
    let stranger = Look::with_user(&server, Some("stranger:x")).await.0;
    let closed = CreateMode::Persistent.with_acls(Acls::creator_all());
    for directory in ["/leasehold-never-made", "/leasehold/%", "/leasehold/%-", "/leasehold/-"] {
        stranger.create(directory, b"", &closed).await.unwrap();
        assert_eq!(renew(&backend, &first).await.unwrap(), Renewal::Renewed, "{directory}");
    }
}

/// The id of this user in an access list.
async fn digest_of_admin(server: &leasehold_test_stores::servers::ZooKeeperServer) -> String {
    let admin = Look::with_user(server, Some("admin:admin")).await.0;
    admin.create("/whoami", b"", &CreateMode::Ephemeral.with_acls(Acls::creator_all())).await.unwrap();
    admin.get_acl("/whoami").await.unwrap().0[0].id().to_owned()
}

#[tokio::test]
async fn login_is_repeated_after_a_reconnect() {
    let server = server();
    let proxy = proxy_to(&server).await;
    let backend = backend(&format!("zk://app:canary@{}?session_timeout=3s", proxy.address()));
    let first = claim("job");
    hold(&backend, &first).await;

    for _ in 0..3 {
        proxy.set(Traffic::BlackHole);
        proxy.cut();
        proxy.set(Traffic::Pass);
        eventually(async || matches!(renew(&backend, &first).await, Ok(Renewal::Renewed)).then_some(()))
            .await;
        let next = claim("next");
        hold(&backend, &next).await;
        release(&backend, &next).await;
    }
    release(&backend, &first).await;
}

#[tokio::test]
async fn nodes_without_a_user_can_be_deleted_by_anyone_and_not_overwritten() {
    let server = server();
    let backend = backend(&server.url());
    hold(&backend, &claim("job")).await;
    let look = Look::at(&server).await;
    let node = look.only_node("job").await;
    assert_eq!(look.0.set_data(&node, b"x", None).await.unwrap_err(), Error::NoAuth);
    for path in [&node, BASE] {
        let error = look.0.set_acl(path, &Acls::anyone_all(), None).await.unwrap_err();
        assert_eq!(error, Error::NoAuth);
    }
    look.delete(&node).await;
}

#[tokio::test]
async fn password_and_owner_are_in_no_text() {
    let server = server();
    let backend = backend(&url_with(&server, "app:canary"));
    let claim = claim("job");
    hold(&backend, &claim).await;
    let other = self::backend(&url_with(&server, "other:canary"));
    let error = answered(other.try_acquire(&claim)).await.unwrap_err();
    let error_of_outage = {
        let port = leasehold_conformance::server::free_port().unwrap();
        let dead = self::backend(&format!("zk://app:canary@127.0.0.1:{port}?connect_timeout=100ms"));
        answered(dead.try_acquire(&claim)).await.unwrap_err()
    };
    let checked = backend.check().await.unwrap();
    let texts = format!("{backend:?} {error:?} {error} {error_of_outage:?} {checked:?}");
    assert!(!texts.contains("canary"), "{texts}");
    assert!(!texts.contains(&claim.owner().to_hex()), "{texts}");
}

/// A server that knows one user, by SASL.
fn server_with_users(files: &tempfile::TempDir) -> leasehold_test_stores::servers::ZooKeeperServer {
    let users = files.path().join("jaas.conf");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    std::fs::write(&users, format!("Server {{ {module} user_app=\"canary\"; }};")).unwrap();
    let users = format!("-Djava.security.auth.login.config={}", users.display());
    let provider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    leasehold_test_stores::servers::ZooKeeperServer::start_with(&[&users, provider]).unwrap()
}

#[tokio::test]
async fn sasl_user_owns_its_nodes() {
    let files = tempfile::tempdir().unwrap();
    let server = server_with_users(&files);
    let backend = backend(&format!("{}/?login=sasl", url_with(&server, "app:canary")));
    let claim = claim("job");
    hold(&backend, &claim).await;
    assert_eq!(backend.renew(std::slice::from_ref(&claim)).await[0].as_ref().unwrap(), &Renewal::Renewed);

    let stranger = Look::with_user(&server, Some("app:canary")).await.0;
    assert_eq!(stranger.list_children("/leasehold/job").await.unwrap_err(), Error::NoAuth);
    let options = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
    assert_eq!(stranger.create("/leasehold/job/x", b"", &options).await.unwrap_err(), Error::NoAuth);
}

#[tokio::test]
async fn unknown_sasl_user_is_denied() {
    let files = tempfile::tempdir().unwrap();
    let server = server_with_users(&files);
    for login in ["app:wrong", "other:wrong"] {
        let backend = backend(&format!("{}/?login=sasl&connect_timeout=2s", url_with(&server, login)));
        let error = answered(backend.try_acquire(&claim("job"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
        assert!(!format!("{error:?}").contains("wrong"));
    }
}
