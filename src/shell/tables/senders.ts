import { list } from '../types.ts'
/* Senders: programs that send data out. */

/** Their names seldom mean something else, so text that cannot be parsed is searched for them too. */
const unmistakable = `
  curl wget wget2 aria2c axel httpie xh xhs curlie lynx w3m elinks lwp-request lwp-download yt-dlp youtube-dl
  scp sftp pscp psftp rcp ssh slogin autossh rsh rlogin mosh sshfs ssh-copy-id parallel-scp pssh pscp.pssh
  nc ncat netcat nc.openbsd nc.traditional socat telnet ftp tftp lftp ncftp ncftpput ncftpget ftpput ftpget smbclient
  croc wormhole magic-wormhole ngrok cloudflared localtunnel frpc chisel
  sendmail mailx s-nail mutt neomutt msmtp ssmtp swaks mpack pastebinit
  websocat wscat grpcurl kcat kafkacat mosquitto_pub whois gh-pages gnutls-cli ztcp azcopy
  semantic-release release-it surge git-push git-send-email
  nsupdate ldapmodify ldapadd snmpset snmptrap mongoimport apprise kdeconnect-cli bluetooth-sendto irssi weechat
  hurl artillery sonar-scanner datadog-ci gst-launch-1.0
  iperf iperf3 netperf nuttcp kafka-console-producer kafka-console-producer.sh kafka-producer-perf-test amqp-publish
  transmission-cli transmission-remote rtorrent deluge-console webtorrent qbittorrent-nox signal-cli telegram-send sendxmpp
  wput httrack wpull gallery-dl wgetpaste bbcp
  slackcat matrix-commander mega-put megaput kioclient kioclient5 gvfs-copy cadaver`

/** Their names are also usual words or parts of addresses, so they count only as the name of a command. */
const ambiguous = `http https links fetch mail nail ab hey wrk siege finger lt bore gist ntfy np hping3 dpaste bombardier`

const certain = list(unmistakable)
export const senders: ReadonlySet<string> = new Set(certain)
export const sendingPrograms: readonly string[] = [...certain, ...list(ambiguous)]

/** Subcommands that send data out. Some programs, such as git and gcloud, also have a function, which uses this too. */
const sending: Readonly<Record<string, string>> = {
  git: 'push|send-email|send-pack|http-push|imap-send|svn dcommit|svn commit|lfs push|subtree push|p4 submit|review|annex sync|annex copy|cl upload',
  hg: 'push|email',
  svn: 'commit|ci|import',
  bzr: 'push|send',
  brz: 'push|send',
  jj: 'git push',
  sl: 'push|pr submit|ghstack|submit',
  fossil: 'push|sync',
  darcs: 'push|send',
  p4: 'submit|shelve',
  cvs: 'commit|ci|import',
  gt: 'submit|stack submit|s|ss|stack s|upstack submit|downstack submit|branch submit|merge|push',
  graphite: 'submit|s|ss|stack submit|merge|push',
  spr: 'diff|land|update|merge',
  tf: 'checkin|shelve',
  datalad: 'push|publish',
  arc: 'diff|land',
  repo: 'upload',
  dvc: 'push',
  'git-lfs': 'push',
  hub: 'push|pull-request|release create|release edit|issue create|gist create|create|fork|sync',
  glab: 'mr create|mr new|mr note|mr update|mr merge|mr approve|issue create|issue new|issue note|issue update|release create|release upload|snippet create|repo create|variable set',
  lab: 'mr create|mr new|mr note|mr comment|mr merge|mr approve|mr edit|issue create|issue new|issue note|issue edit|snippet create|project create|push|fork',
  av: 'pr create|pr queue|stack submit|stack sync|sync',
  tea: 'pr create|pulls create|issue create|issues create|release create|releases create|comment',
  npm: 'publish|unpublish|deprecate|dist-tag add|dist-tags add|owner add|access set|access grant|stage publish',
  yarn: 'publish|npm publish|npm tag add',
  pnpm: 'publish',
  bun: 'publish',
  deno: 'publish|deploy',
  jsr: 'publish',
  lerna: 'publish',
  changeset: 'publish',
  rush: 'publish',
  nx: 'release publish|release',
  rebar3: 'hex publish|hex cut',
  elm: 'publish',
  opam: 'publish',
  spago: 'publish',
  nimble: 'publish',
  choco: 'push',
  paket: 'push',
  buf: 'push|registry module create',
  vagrant: 'cloud publish|cloud version|push',
  'ansible-galaxy': 'collection publish|role import',
  raco: 'pkg publish',
  pants: 'publish',
  'web-ext': 'sign',
  tfx: 'extension publish|build tasks upload',
  apptainer: 'push',
  singularity: 'push',
  asciinema: 'upload',
  twine: 'upload',
  poetry: 'publish',
  uv: 'publish',
  hatch: 'publish',
  flit: 'publish',
  pdm: 'publish',
  rye: 'publish',
  maturin: 'publish|upload',
  anaconda: 'upload',
  cargo: 'publish|yank|owner|release|hack publish',
  gem: 'push|yank|owner',
  mvn: 'deploy|release:perform|deploy:deploy-file|site-deploy',
  mvnw: 'deploy|release:perform',
  sbt: 'publish|publishsigned',
  lein: 'deploy',
  vsce: 'publish',
  ovsx: 'publish',
  pod: 'trunk push|repo push',
  mix: 'hex.publish',
  dotnet: 'nuget push',
  nuget: 'push',
  luarocks: 'upload',
  dart: 'pub publish|pub lish',
  pub: 'publish|lish',
  zappa: 'deploy|update',
  amplify: 'publish|push|env add',
  func: 'azure functionapp publish|azure storage fetch-connection-string',
  swa: 'deploy',
  supabase: 'functions deploy|secrets set|db push|storage cp',
  clasp: 'push|deploy',
  shopify: 'theme push|theme share|theme publish|app deploy',
  kamal: 'deploy|redeploy|setup|push',
  xcrun: 'altool|notarytool submit|notarytool store-credentials',
  bw: 'create|edit|send',
  flutter: 'pub publish|pub lish',
  stack: 'upload',
  cabal: 'upload',
  conan: 'upload',
  snapcraft: 'upload|push|release',
  goreleaser: 'release|publish',
  helm: 'push|cm-push',
  oras: 'push|copy|cp|attach',
  crane: 'push|copy|cp|append',
  skopeo: 'copy|sync',
  buildah: 'push',
  docker: 'push|image push|manifest push|plugin push|compose push|trust sign|buildx imagetools create',
  podman: 'push|image push|manifest push|scp|image scp',
  nerdctl: 'push|image push|compose push',
  'docker-compose': 'push',
  jf: 'rt upload|rt u|rt dp|rt docker-push|rt curl|curl',
  jfrog: 'rt upload|rt u|rt dp|rt docker-push',
  cachix: 'push',
  'huggingface-cli': 'upload|upload-large-folder',
  hf: 'upload|upload-large-folder',
  kaggle: 'datasets create|datasets version|kernels push|competitions submit',
  wandb: 'sync|artifact put',
  mkdocs: 'gh-deploy',
  mike: 'deploy',
  vercel: 'deploy|--prod|env add|env update|secrets add',
  netlify: 'deploy|env:set|env:import|blobs:set',
  wrangler:
    'deploy|publish|pages deploy|r2 object put|kv key put|kv bulk put|secret put|versions upload|kv:key put|kv:bulk put|secret bulk|secret:bulk',
  firebase:
    'functions:secrets:set|functions:config:set|deploy|hosting:channel:deploy|appdistribution:distribute',
  fly: 'deploy|ssh|console|sftp|machine exec|secrets set|secrets import',
  flyctl: 'deploy|ssh|console|sftp|machine exec|secrets set|secrets import',
  railway: 'up|ssh|variables set|variables --set|variable set',
  eb: 'deploy|ssh',
  sam: 'deploy|publish',
  cdk: 'deploy',
  serverless: 'deploy',
  sls: 'deploy',
  modal: 'deploy|volume put|nfs put|secret create',
  expo: 'publish',
  eas: 'update|submit|build|secret:create|secret:push|env:create|env:push',
  cf: 'push|ssh|set-env|create-user-provided-service',
  // object stores and clouds (copies.ts decides by source and target whether a copy sends data out)
  az: 'ssh|storage blob upload|storage blob upload-batch|storage blob sync|storage blob copy start|storage file upload|storage file upload-batch|storage fs file upload|storage fs directory upload|storage copy|repos pr create|artifacts universal publish|webapp deploy|webapp up|webapp deployment source config-zip|webapp config appsettings set|functionapp deploy|functionapp deployment source config-zip|functionapp config appsettings set|logicapp deployment source config-zip|containerapp up|containerapp secret set|spring app deploy|staticwebapp appsettings set|acr build|acr import|vm run-command invoke|vm run-command create|keyvault secret set|storage message put|storage entity insert',
  gcloud:
    'artifacts generic upload|artifacts apt upload|artifacts yum upload|artifacts go upload|app deploy|functions deploy|run deploy|builds submit|compute scp|compute ssh|pubsub topics publish|storage sign-url|secrets versions add|logging write',
  bq: 'load|insert',
  s3cmd: 'put|sync|cp|mv|signurl|modify',
  b2: 'upload-file|upload-unbound-stream|file upload|sync|get-download-url-with-auth',
  restic: 'backup|copy',
  duplicity: 'full|incremental|backup',
  coscmd: 'upload',
  oci: 'os object put|os object bulk-upload|os object sync',
  openstack: 'object create',
  hdfs: 'dfs -put|dfs -copyfromlocal|dfs -movefromlocal|dfs -appendtofile',
  hadoop: 'fs -put|fs -copyfromlocal|fs -movefromlocal|fs -appendtofile|distcp',
  tsh: 'ssh|scp',
  doctl: 'compute ssh',
  hcloud: 'server ssh',
  rclone: 'rcat|serve|link|copyurl|mount',
  swift: 'upload|package-registry publish',
  tailscale: 'file cp|serve|funnel|ssh|nc',
  kubectl: 'cp',
  oc: 'cp|rsync|start-build',
  heroku: 'container:push|builds:create|run|ps:exec|pg:push|config:set|config:add|run:detached|run:inside',
  openssl: 's_client|s_server|ocsp',
  adb: 'push|sync',
  vault: 'ssh|kv put|kv patch|write',
  consul: 'kv put|event',
  etcdctl: 'put',
  nats: 'pub|publish|req|request|kv put|object put',
  ctr: 'images push|image push|i push',
  cosign: 'upload|attach|attest|sign',
  snyk: 'monitor',
  jira: 'issue create|issue comment|issue edit',
  slack: 'chat send|file upload',
  code: 'tunnel',
  devtunnel: 'host',
  syncthing: 'serve|cli',
  ipfs: 'add|name publish|pin remote|dht put|dht provide|block put|dag put|dag import|files write|files cp|pubsub pub|swarm connect|routing put|routing provide',
  rabbitmqadmin: 'publish',
  'pulsar-client': 'produce',
  kopia: 'snapshot create|repository sync-to|server start',
  mongofiles: 'put',
  influx: 'write|backup',
  promtool: 'push',
  gdrive: 'upload|files upload',
  toot: 'post|media',

  codecov: 'upload|do-upload|upload-process',
  'sentry-cli': 'upload-dif|sourcemaps upload|releases files|send-event|debug-files upload',
}

/** Only for text that cannot be parsed: with operands unknown, these count as sending. */
const telling: Readonly<Record<string, string>> = {
  gh: 'pr create|pr new|pr comment|pr review|issue create|issue comment|gist create|release create|release upload|api post|workflow run',
  aws: 's3 cp|s3 mv|s3 sync|s3 presign|s3api put-object|sns publish|sqs send-message|lambda invoke',
  gsutil: 'cp|mv|rsync',
  s5cmd: 'cp|mv|sync',
  gcloud: 'storage cp|storage mv|storage rsync',
  rclone: 'copy|sync|move|copyto',
}

/** Subcommands (`''`: any or none) that send if an argument matches, alone or together with the next word. */
const given: Readonly<Record<string, Readonly<Record<string, RegExp>>>> = {
  gcloud: { 'secrets create': /^--data/, 'functions call': /^--(cloud-event-)?data/ },
  kubectl: { 'create secret': /^--from-/, 'create configmap': /^--from-/, 'create cm': /^--from-/ },
  oc: { 'create secret': /^--from-/, 'create configmap': /^--from-/ },
  nix: { copy: /^--to(=|$)/ },
  doppler: { 'secrets set': /./, 'secrets upload': /./ },
  op: { 'item create': /./, 'item edit': /./, 'document create': /./, 'document edit': /./ },
  infisical: { 'secrets set': /./ },
  pack: { build: /^--publish(=true)?$/, buildpack: /^--publish(=true)?$/ },
  buildctl: { build: /\bpush=true\b|type=registry\b/ },
  certutil: { '': /^[-/](urlcache|verifyctl|url|urlfetch)$/i },
  bitsadmin: { '': /^\/(transfer|addfile)$/i },
  certreq: { '': /^-(post|submit|enroll)$/i },
  msiexec: { '': /^\w+:\/\//i },
  regsvr32: { '': /^\/i:\w+:\/\//i },
  'electron-builder': { '': /^(-p|--publish)[= ]?(?!never)\w/ },
  earthly: { '': /^--push$/ },
  conda: { build: /^--upload$/ },
  cpio: { '': /^(-[a-z0-9]*[OIF]|--file)[= ]?[^/:\s]+:/ },
  ...Object.fromEntries(
    ['monolith', 'wkhtmltopdf', 'wkhtmltoimage'].map((name) => [name, { '': /^(?!file:)\w+:\/\//i }]),
  ),
  svn: Object.fromEntries(
    'copy cp mkdir delete del remove rm move mv rename ren'
      .split(' ')
      .map((verb) => [verb, /^(?!file:)[\w+]+:\/\/|^\^\//i]),
  ),
  aws: Object.fromEntries(
    `dynamodb update-item|dynamodb batch-write-item|dynamodb transact-write-items|dynamodb execute-statement|dynamodb batch-execute-statement
    |stepfunctions start-execution|stepfunctions start-sync-execution|secretsmanager create-secret|secretsmanager update-secret
    |codecommit create-commit|codecommit create-pull-request|codecommit create-unreferenced-merge-commit|codecommit update-comment
    |codecommit update-pull-request-description|codecommit update-pull-request-title|cloudformation deploy|cloudformation package|rds-data execute-statement|ssm send-command`
      .split(/\s*\|/)
      .map((path) => [path, /./]),
  ),
}
export const givenPaths: ReadonlyMap<string, readonly (readonly [readonly string[], RegExp])[]> = new Map(
  Object.entries(given).map(([program, paths]) => [
    program,
    Object.entries(paths).map(([path, word]) => [path === '' ? [] : path.split(' '), word] as const),
  ]),
)

/** Subcommands of `aws` that store their arguments in the cloud, e.g. as the name of a resource. */
export const keeps = /^(create|update|modify|tag|set|add|register|import|change)-/

export const sendsExcept: ReadonlyMap<string, RegExp> = new Map([
  ['ghstack', /^(checkout|unlink|cherry-pick|log|status|rage|help)$/],
  ['beachball', /^(check|change|bump|canary|init|sync|config)$/],
  ['nix-copy-closure', /^--from$/],
])

const taken = (table: Readonly<Record<string, string>>): [string, readonly (readonly string[])[]][] =>
  Object.entries(table).map(([program, paths]) => [program, paths.split('|').map((path) => path.split(' '))])

export const sendingPaths: ReadonlyMap<string, readonly (readonly string[])[]> = new Map(taken(sending))

/** `sending` and `telling` together, for text that cannot be parsed, where single words are searched (scan.ts). */
export const tellingPaths: ReadonlyMap<string, readonly (readonly string[])[]> = new Map([
  ...taken(sending),
  ...taken(telling).map(([program, paths]): [string, readonly (readonly string[])[]] => [
    program,
    [...paths, ...(sendingPaths.get(program) ?? [])],
  ]),
])
