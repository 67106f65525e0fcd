/*
 * This file is longer than others because it is one table, with one row for each program. The rows are data. The code
 * that reads them is in `../programs`.
 */

import type { OptionTable } from '../programs/options.ts'

/** A program that runs the command after its own options. */
export interface Wrapper extends OptionTable {
  /** Number of operands before the command: `timeout 5 command`. */
  readonly skip?: number
  /** With one of these options, no operand stands before the command. */
  readonly instead?: string
  /** If true, an operand may come before the options: `setarch x86_64 -R command`. */
  readonly first?: boolean
  /** If true, every operand is separate shell code. */
  readonly each?: boolean
  /** If true, `NAME=value` words may come before the command. */
  readonly assignments?: boolean
  /** The options whose value is shell code. */
  readonly code?: string
  /** If true, the operands are joined to one text, which a shell runs. */
  readonly joined?: boolean
  /** If true, the program starts a shell when it gets no command. */
  readonly shell?: boolean
  /** The options that make the program show something and run no command. */
  readonly shows?: string
}

const plain: Wrapper = {}

/** util-linux's setarch, under any of its names. */
const personality: Wrapper = {
  flags: 'BFILRSTXZv3Vh',
  longFlags:
    'addr-no-randomize fdpic-funcptrs mmap-page-zero addr-compat-layout read-implies-exec 32bit short-inode whole-seconds sticky-timeouts 3gb 4gb uname-2.6 verbose list show help version',
  shell: true,
  shows: 'list show help version V h',
}

/** The options come from the manuals of coreutils, util-linux and moreutils, and of BSD if its options differ. */
export const wrappers: Readonly<Record<string, Wrapper>> = {
  // builtins of the shell
  command: { flags: 'pvV', shows: 'v V' },
  builtin: plain,
  exec: { flags: 'cl', values: 'a' },
  nocorrect: plain,
  noglob: plain,
  '-': plain,
  // coreutils
  env: {
    flags: 'i0v',
    values: 'uCaPS',
    long: 'unset chdir argv0 split-string',
    longFlags:
      'ignore-environment null debug block-signal default-signal ignore-signal list-signal-handling help version',
    assignments: true,
    last: 'S split-string',
  },
  nice: { values: 'n', long: 'adjustment', longFlags: 'help version' },
  nohup: { longFlags: 'help version' },
  timeout: {
    flags: 'fpv',
    values: 'ks',
    long: 'kill-after signal',
    longFlags: 'foreground preserve-status verbose help version',
    skip: 1,
  },
  stdbuf: { values: 'ioe', long: 'input output error', longFlags: 'help version' },
  chroot: { long: 'groups userspec', longFlags: 'skip-chdir help version', skip: 1, shell: true },
  runcon: {
    values: 'turl',
    flags: 'c',
    long: 'type user role range',
    longFlags: 'compute help version',
    skip: 1,
    instead: 't u r l c type user role range compute',
  },
  time: {
    flags: 'apvVqlh',
    values: 'fo',
    long: 'format output',
    longFlags: 'append portability verbose quiet help version',
  },
  // other users
  sudo: {
    flags: 'AbBEeHiKklNnPSsVv',
    values: 'aCcDghpRrTtUu',
    long: 'user group host prompt chdir chroot role type close-from other-user command-timeout login-class auth-type',
    longFlags:
      'preserve-env askpass bell background edit set-home login list non-interactive stdin shell validate version help reset-timestamp remove-timestamp preserve-groups no-update',
    assignments: true,
    between: /^[^=]+=/,
    shows: 'e edit l list v validate K k V version h help',
  },
  doas: { flags: 'Lns', values: 'Cu', shell: true, shows: 'L' },
  pkexec: { long: 'user', longFlags: 'disable-internal-agent keep-cwd', shell: true },
  run0: {
    values: 'ugD',
    long: 'user group chdir nice unit property description slice setenv background machine',
    longFlags: 'no-ask-password slice-inherit pipe pty',
    shell: true,
  },
  gosu: { skip: 1 },
  'su-exec': { skip: 1 },
  sg: { code: 'c', values: 'c', skip: 1, joined: true, shell: true },
  setuidgid: { skip: 1 },
  's6-setuidgid': { skip: 1 },
  's6-envuidgid': { skip: 1, values: 'ugG', flags: 'iInN' },
  's6-applyuidgid': { values: 'ugG', flags: 'zU' },
  's6-envdir': { skip: 1, flags: 'IinfLl', values: 'c' },
  's6-softlimit': { values: 'madfslcroptmh', flags: 'hH' },
  's6-setlock': { skip: 1, flags: 'nNrRwW', values: 't' },
  's6-setsid': { flags: 'IiqQ' },
  envuidgid: { skip: 1 },
  envdir: { skip: 1 },
  softlimit: { values: 'madfslcroptm' },
  chpst: { values: 'ubUemdofplcrtn/', flags: 'vP012' },
  setpriv: {
    flags: 'dh',
    long: 'reuid regid groups securebits selinux-label apparmor-profile ambient-caps inh-caps bounding-set ruid euid rgid egid ptracer pdeathsig landlock-access landlock-rule',
    longFlags: 'dump nnp no-new-privs clear-groups keep-groups init-groups reset-env help version',
  },
  // util-linux and similar
  ionice: { flags: 't', values: 'cnpPu', long: 'class classdata pid pgid uid', longFlags: 'ignore' },
  chrt: {
    flags: 'abdfimorvR',
    values: 'TPDp',
    long: 'sched-runtime sched-period sched-deadline pid',
    longFlags: 'all-tasks batch deadline fifo idle max other rr reset-on-fork verbose',
    skip: 1,
  },
  taskset: { flags: 'ac', values: 'p', long: 'pid', longFlags: 'all-tasks cpu-list', skip: 1 },
  setsid: { flags: 'cfw', longFlags: 'ctty fork wait help version' },
  flock: {
    flags: 'snxuoFev',
    values: 'wEc',
    long: 'timeout wait conflict-exit-code command',
    longFlags: 'shared exclusive unlock nonblock nb close no-fork verbose',
    code: 'c command',
    skip: 1,
  },
  prlimit: { flags: 'v', values: 'po', long: 'pid output' },
  choom: { values: 'np', long: 'adjust pid' },
  uclampset: { flags: 'asRv', values: 'mMp', long: 'util-min util-max pid' },
  setarch: { ...personality, first: true },
  linux32: personality,
  linux64: personality,
  i386: personality,
  x86_64: personality,
  arch: { flags: 'x86_4arme', values: 'de' },
  unshare: {
    flags: 'fimnpuUCTrc',
    values: 'SGRwl',
    long: 'setuid setgid root wd propagation map-user map-group map-users map-groups setgroups monotonic boottime load-interp',
    longFlags:
      'mount uts ipc net pid user cgroup time fork mount-proc map-root-user map-current-user map-auto kill-child keep-caps',
    shell: true,
  },
  nsenter: {
    flags: 'amuinpCUTrwZFe',
    values: 'tSGW',
    long: 'target setuid setgid wdns',
    longFlags:
      'all mount uts ipc net pid cgroup user time root wd no-fork preserve-credentials follow-context env join-cgroup user-parent',
    shell: true,
  },
  watch: {
    flags: 'bcdegtwxprC',
    values: 'nq',
    long: 'interval equexit shotsdir',
    longFlags:
      'beep color no-color differences errexit chgexit exec precise no-title no-wrap no-rerun follow help version',
    joined: true,
  },
  cgexec: { values: 'g', longFlags: 'sticky' },
  numactl: {
    flags: 'sHla',
    values: 'iNmCp',
    long: 'interleave preferred membind cpunodebind physcpubind',
    longFlags: 'localalloc all balancing',
  },
  // tracing and measuring
  strace: { flags: 'cCdDfFhikqrtTvVwxyYzZn', values: 'abeEIoOpPsSuUX' },
  ltrace: { flags: 'bcCfhiLrStTV', values: 'aADeFlnopsuwx' },
  valgrind: plain,
  catchsegv: plain,
  hyperfine: {
    flags: 'iN',
    values: 'wmMrspcnu',
    long: 'warmup min-runs max-runs runs setup prepare conclude cleanup shell export-json export-markdown export-csv style command-name time-unit output input parameter-scan parameter-list',
    longFlags: 'ignore-failure show-output',
    code: 's p c setup prepare conclude cleanup',
    each: true,
  },
  // sessions, screens, files
  'dbus-run-session': { long: 'config-file dbus-daemon' },
  'ssh-agent': { flags: 'csDdk', values: 'aEOPt' },
  'xvfb-run': {
    flags: 'al',
    values: 'efnpsw',
    long: 'error-file auth-file server-num listen-tcp xauth-protocol server-args wait',
    longFlags: 'auto-servernum',
  },
  unbuffer: { flags: 'p' },
  fakeroot: { flags: 'uhv', values: 'lsib', long: 'lib faked' },
  caffeinate: { flags: 'dimsu', values: 'tw' },
  chronic: { flags: 've' },
  ifne: { flags: 'n' },
  rlwrap: { values: 'bcCDfgHlmMpPqsStwz', flags: 'aAeiInNorRuvWX' },
  tini: { flags: 'sgvw', values: 'pe' },
  'dumb-init': { flags: 'cv', values: 'r' },
  firejail: plain,
  bwrap: plain,
  proot: { values: 'rbqwkmvpiRS0' },
  eatmydata: plain,
  busybox: { longFlags: 'list list-full help install' },
  toybox: plain,
  torify: { flags: 'v' },
  torsocks: { flags: 'iqd', values: 'aPup' },
  proxychains: { flags: 'q', values: 'f' },
  proxychains4: { flags: 'q', values: 'f' },
  sshpass: { flags: 'ev', values: 'fdpP' },
  'cross-env': { assignments: true },
  'cross-env-shell': { assignments: true, joined: true },
  dotenv: { flags: 'co', values: 'efvp' },
  dotenvx: { values: 'ef', skip: 1 },
  'env-cmd': { values: 'fre', longFlags: 'silent verbose no-override use-shell', long: 'file environments' },
  direnv: { skip: 2 },
  doppler: { skip: 1, values: 'pc', long: 'project config command', code: 'command' },
  op: { skip: 1, long: 'env-file account' },
  'aws-vault': { skip: 2 },
  retry: { values: 'tds', long: 'times delay' },
  mpirun: { values: 'nHx', long: 'np host hostfile', flags: 'v' },
  mpiexec: { values: 'nHx', long: 'np host hostfile', flags: 'v' },
  srun: { values: 'nNpctJowAqw' },
  // programs that start others in the background, later or for other users
  loader: { long: 'library-path preload audit inhibit-rpath argv0 glibc-hwcaps-prepend', values: 'LEUrsgR0' },
  logsave: { flags: 'asv', skip: 1 },
  daemonize: { flags: 'av', values: 'ceopuElu' },
  dtach: { values: 'nAacNpreE', flags: 'zrE' },
  abduco: { values: 'nAace', flags: 'frlq' },
  tsp: { flags: 'nfmdBELvVhgCuKlS', values: 'DWLNstcpwkTrSo' },
  ts: plain,
  openvt: {
    flags: 'fesuvlw',
    values: 'c',
    long: 'console',
    longFlags: 'force exec switch wait login user verbose',
  },
  cpulimit: {
    flags: 'fvzikbq',
    values: 'lpePscm',
    long: 'limit pid exe path cpu',
    longFlags: 'lazy foreground verbose',
  },
  pexec: { values: 'nprfeoaiutgy' },
  distcc: plain,
  ccache: plain,
  sccache: plain,
  multitime: { flags: 'vlqs', values: 'nsIirofc' },
  winpty: plain,
  wsl: { flags: '~', values: 'due', long: 'distribution user cd exec shell-type', longFlags: 'system' },
  msgfilter: { values: 'ioDwKp', flags: 'Eehvns' },
  msgexec: { values: 'iD' },
  'flatpak-spawn': {
    long: 'env directory forward-fd unset-env sandbox-expose',
    longFlags: 'host clear-env watch-bus sandbox no-network',
  },
  proxychains5: { flags: 'q', values: 'f' },
  'dbus-launch': {
    long: 'autolaunch config-file',
    longFlags:
      'auto-syntax binary-syntax close-stderr exit-with-session exit-with-x11 csh-syntax sh-syntax help version',
  },
  'gpg-agent': {
    flags: 'qvsck',
    values: 'ol',
    long: 'homedir options log-file debug debug-level default-cache-ttl default-cache-ttl-ssh max-cache-ttl max-cache-ttl-ssh pinentry-program scdaemon-program pinentry-timeout faked-system-time ssh-fingerprint-digest extra-socket write-env-file',
    longFlags:
      'daemon server supervised sh csh quiet verbose no-detach enable-ssh-support allow-preset-passphrase allow-loopback-pinentry use-standard-socket gpgconf-list gpgconf-test help version batch steal-socket',
  },
  faketime: {
    flags: 'mf',
    values: 'p',
    longFlags: 'help version disable-monotonic exclude-monotonic',
    skip: 1,
  },
  heaptrack: {
    flags: 'rdah',
    values: 'opi',
    long: 'output pid interpret',
    longFlags: 'raw debug record-only help version',
  },
  'systemd-nspawn': {
    flags: 'xbnUqaSZL',
    values: 'DitMupGE',
    long: 'directory image template machine user port bind bind-ro network-bridge network-interface setenv chdir uuid slice property private-users tmpfs overlay capability',
    longFlags:
      'ephemeral boot as-pid2 quiet private-network read-only volatile keep-unit register help version',
    shell: true,
  },
  'systemd-inhibit': { long: 'what who why mode', longFlags: 'list no-pager no-legend help version' },
  'systemd-cat': {
    values: 'tp',
    long: 'identifier priority stderr-priority level-prefix',
    longFlags: 'help version',
  },
  'run-one': plain,
  lckdo: { flags: 'weEsxqW', values: 'W', skip: 1 },
  setlock: { flags: 'nNxX', skip: 1 },
  trickle: { values: 'udwtlnP', flags: 'hVvs' },
  tsocks: plain,
  graftcp: plain,
  // processor, memory, folders
  'systemd-run': {
    flags: 'rtPqGdSv',
    values: 'puEHM',
    long: 'unit property description slice service-type uid gid nice working-directory setenv host machine on-active on-boot on-startup on-unit-active on-unit-inactive on-calendar timer-property path-property socket-property background',
    longFlags:
      'scope user system wait pty pipe quiet collect no-block remain-after-exit same-dir send-sighup shell no-ask-password slice-inherit expand-environment no-pager',
  },
}
