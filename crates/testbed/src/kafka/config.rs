//! The files of a broker: what it is, where it keeps its data, who may use it.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::leash::Folder;

pub(super) const PROPERTIES: &str = "server.properties";
pub(super) const LOGGING: &str = "log4j2.properties";
pub(super) const CERTIFICATE: &str = "certificate.pem";

/// Who may do anything at the guarded port.
pub const USER: &str = "relay";
/// Who may log in at the guarded port, and then nothing.
pub const STRANGER: &str = "stranger";
/// The password of both.
pub const PASSWORD: &str = "s3cret/p@ss";

/// Where a broker listens, all on 127.0.0.1.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) controller: u16,
    /// With TLS and a login.
    pub(super) guarded: Option<u16>,
    /// A port whose clients are told to go to another, which is the second.
    pub(super) behind: Option<(u16, u16)>,
}

/// Writes everything that a broker needs to start.
///
/// A node is made by `StorageTool format`, which is another Java to start; all that it would write for a single node
/// is this one file, and the broker fills in the rest.
pub(super) fn write(folder: &Folder, ports: Ports) -> Result<()> {
    let Ports { plain, controller, guarded, behind } = ports;
    let data = folder.path().join("data");
    fs::create_dir(&data)?;
    let identity =
        "version=1\ncluster.id=outbox-testbed-0000000\nnode.id=1\ndirectory.id=XJbMXqkMSOmKrPMrwyWeYg\n";
    fs::write(data.join("meta.properties"), identity)?;
    folder.write(LOGGING, LOG)?;
    let mut listeners = format!("PLAINTEXT://127.0.0.1:{plain}");
    let mut more = String::new();
    if let Some(guarded) = guarded {
        listeners.push_str(&format!(",GUARDED://127.0.0.1:{guarded}"));
        more = guard(folder)?;
    }
    let mut told = listeners.clone();
    if let Some((port, elsewhere)) = behind {
        listeners.push_str(&format!(",BEHIND://127.0.0.1:{port}"));
        told.push_str(&format!(",BEHIND://127.0.0.1:{elsewhere}"));
    }
    let properties = format!(
        "process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners={listeners},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={told}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,BEHIND:PLAINTEXT,GUARDED:SASL_SSL
log.dirs={}
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
num.network.threads=2
num.io.threads=2
log.cleaner.dedupe.buffer.size=4194304
{more}",
        data.display()
    );
    folder.write(PROPERTIES, &properties).map(drop)
}

const LOG: &str = "appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %p %m (%c)%n
rootLogger.level=warn
rootLogger.appenderRef.out.ref=out
";

/// A certificate for 127.0.0.1, and who may log in and do what.
fn guard(folder: &Folder) -> Result<String> {
    let store = folder.path().join("store.p12");
    let keytool = |arguments: &[&str]| -> Result<()> {
        let mut command = Command::new("keytool");
        command.args(arguments).args(["-alias", "kafka", "-storetype", "PKCS12", "-storepass", "testbed"]);
        let output = command.arg("-keystore").arg(&store).output().context("cannot run keytool")?;
        if !output.status.success() {
            bail!("keytool failed: {}", String::from_utf8_lossy(&output.stdout));
        }
        Ok(())
    };
    let names = "san=ip:127.0.0.1,dns:localhost";
    keytool(&[
        "-genkeypair",
        "-keyalg",
        "EC",
        "-dname",
        "CN=testbed",
        "-ext",
        names,
        "-ext",
        "bc:c=ca:true",
    ])?;
    let certificate = folder.path().join(CERTIFICATE);
    keytool(&["-exportcert", "-rfc", "-file", &certificate.to_string_lossy()])?;
    Ok(format!(
        r#"ssl.keystore.type=PKCS12
ssl.keystore.location={}
ssl.keystore.password=testbed
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS;User:{USER}
listener.name.guarded.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.guarded.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_{STRANGER}="{PASSWORD}";
listener.name.guarded.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.guarded.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
"#,
        store.display()
    ))
}
