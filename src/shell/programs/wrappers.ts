import { unknown } from '../marks.ts'
import { list, type Program, type Shell } from '../types.ts'
import { has, type OptionTable, readOptions, valueOf, valuesOf } from './options.ts'

interface Wrapper extends OptionTable {
  /** Operands before the command: `timeout 5 command`. */
  readonly skip?: number
  /** With one of these options, no operand stands before the command. */
  readonly instead?: string
  /** An operand may come before the options: `setarch x86_64 -R command`. */
  readonly first?: boolean
  /** Every operand is separate shell code. */
  readonly each?: boolean
  /** `NAME=value` words may come before the command. */
  readonly assignments?: boolean
  /** Options whose value is shell code. */
  readonly code?: string
  /** A shell runs the operands, joined. */
  readonly joined?: boolean
  /** It starts a shell when it gets no command. */
  readonly shell?: boolean
  /** Options with which it runs no command. */
  readonly shows?: string
}

const all = (names: string, wrapper: Wrapper): Record<string, Wrapper> =>
  Object.fromEntries(list(names).map((name) => [name, wrapper]))

/** util-linux's setarch, under any of its names. */
const personality: Wrapper = {
  options:
    '-BFILRSTXZv3Vh addr-no-randomize fdpic-funcptrs mmap-page-zero addr-compat-layout read-implies-exec 32bit short-inode whole-seconds sticky-timeouts 3gb 4gb uname-2.6 verbose list show help version',
  shell: true,
  shows: 'list show help version V h',
}

/** From the manuals of coreutils, util-linux and moreutils, and of BSD where it differs. */
export const wrappers: Readonly<Record<string, Wrapper>> = {
  ...all(
    'builtin nocorrect noglob - valgrind catchsegv firejail bwrap eatmydata toybox ts distcc ccache sccache winpty run-one tsocks graftcp',
    {},
  ),
  ...all('gosu su-exec setuidgid s6-setuidgid envuidgid envdir', { skip: 1 }),
  ...all('direnv aws-vault', { skip: 2 }),
  ...all('linux32 linux64 i386 x86_64', personality),
  ...all('proxychains proxychains4 proxychains5', { options: '-qf:' }),
  ...all('mpirun mpiexec', { options: '-vn:H:x: np= host= hostfile=' }),
  command: { options: '-pvV', shows: 'v V' },
  exec: { options: '-cla:' },
  env: {
    options:
      '-i0vu:C:a:P:S: unset= chdir= argv0= split-string= ignore-environment null debug block-signal default-signal ignore-signal list-signal-handling help version',
    assignments: true,
    last: 'S split-string',
  },
  nice: { options: '-n: adjustment= help version' },
  nohup: { options: 'help version' },
  timeout: {
    options: '-fpvk:s: kill-after= signal= foreground preserve-status verbose help version',
    skip: 1,
  },
  stdbuf: { options: '-i:o:e: input= output= error= help version' },
  chroot: { options: 'groups= userspec= skip-chdir help version', skip: 1, shell: true },
  runcon: {
    options: '-ct:u:r:l: type= user= role= range= compute help version',
    skip: 1,
    instead: 't u r l c type user role range compute',
  },
  time: { options: '-apvVqlhf:o: format= output= append portability verbose quiet help version' },
  sudo: {
    options:
      '-AbBEeHiKklNnPSsVva:C:c:D:g:h:p:R:r:T:t:U:u: user= group= host= prompt= chdir= chroot= role= type= close-from= other-user= command-timeout= login-class= auth-type= preserve-env askpass bell background edit set-home login list non-interactive stdin shell validate version help reset-timestamp remove-timestamp preserve-groups no-update',
    assignments: true,
    between: /^[^=]+=/,
    shows: 'e edit l list v validate K k V version h help',
  },
  doas: { options: '-LnsC:u:', shell: true, shows: 'L' },
  pkexec: { options: 'user= disable-internal-agent keep-cwd', shell: true },
  run0: {
    options:
      '-u:g:D: user= group= chdir= nice= unit= property= description= slice= setenv= background= machine= no-ask-password slice-inherit pipe pty',
    shell: true,
  },
  sg: { code: 'c', options: '-c:', skip: 1, joined: true, shell: true },
  's6-envuidgid': { skip: 1, options: '-iInNu:g:G:' },
  's6-applyuidgid': { options: '-zUu:g:G:' },
  's6-envdir': { skip: 1, options: '-IinfLlc:' },
  's6-softlimit': { options: '-hHm:a:d:f:s:l:c:r:o:p:t:m:h:' },
  's6-setlock': { skip: 1, options: '-nNrRwWt:' },
  's6-setsid': { options: '-IiqQ' },
  softlimit: { options: '-m:a:d:f:s:l:c:r:o:p:t:m:' },
  chpst: { options: '-vP012u:b:U:e:m:d:o:f:p:l:c:r:t:n:/:' },
  setpriv: {
    options:
      '-dh reuid= regid= groups= securebits= selinux-label= apparmor-profile= ambient-caps= inh-caps= bounding-set= ruid= euid= rgid= egid= ptracer= pdeathsig= landlock-access= landlock-rule= dump nnp no-new-privs clear-groups keep-groups init-groups reset-env help version',
  },
  ionice: { options: '-tc:n:p:P:u: class= classdata= pid= pgid= uid= ignore' },
  chrt: {
    options:
      '-abdfimorvRT:P:D:p: sched-runtime= sched-period= sched-deadline= pid= all-tasks batch deadline fifo idle max other rr reset-on-fork verbose',
    skip: 1,
  },
  taskset: { options: '-acp: pid= all-tasks cpu-list', skip: 1 },
  setsid: { options: '-cfw ctty fork wait help version' },
  flock: {
    options:
      '-snxuoFevw:E:c: timeout= wait= conflict-exit-code= command= shared exclusive unlock nonblock nb close no-fork verbose',
    code: 'c command',
    skip: 1,
  },
  prlimit: { options: '-vp:o: pid= output=' },
  choom: { options: '-n:p: adjust= pid=' },
  uclampset: { options: '-asRvm:M:p: util-min= util-max= pid=' },
  setarch: { ...personality, first: true },
  arch: { options: '-x86_4armed:e:' },
  unshare: {
    options:
      '-fimnpuUCTrcS:G:R:w:l: setuid= setgid= root= wd= propagation= map-user= map-group= map-users= map-groups= setgroups= monotonic= boottime= load-interp= mount uts ipc net pid user cgroup time fork mount-proc map-root-user map-current-user map-auto kill-child keep-caps',
    shell: true,
  },
  nsenter: {
    options:
      '-amuinpCUTrwZFet:S:G:W: target= setuid= setgid= wdns= all mount uts ipc net pid cgroup user time root wd no-fork preserve-credentials follow-context env join-cgroup user-parent',
    shell: true,
  },
  watch: {
    options:
      '-bcdegtwxprCn:q: interval= equexit= shotsdir= beep color no-color differences errexit chgexit exec precise no-title no-wrap no-rerun follow help version',
    joined: true,
  },
  cgexec: { options: '-g: sticky' },
  numactl: {
    options:
      '-sHlai:N:m:C:p: interleave= preferred= membind= cpunodebind= physcpubind= localalloc all balancing',
  },
  strace: { options: '-cCdDfFhikqrtTvVwxyYzZna:b:e:E:I:o:O:p:P:s:S:u:U:X:' },
  ltrace: { options: '-bcCfhiLrStTVa:A:D:e:F:l:n:o:p:s:u:w:x:' },
  hyperfine: {
    options:
      '-iNw:m:M:r:s:p:c:n:u: warmup= min-runs= max-runs= runs= setup= prepare= conclude= cleanup= shell= export-json= export-markdown= export-csv= style= command-name= time-unit= output= input= parameter-scan= parameter-list= ignore-failure show-output',
    code: 's p c setup prepare conclude cleanup',
    each: true,
  },
  'dbus-run-session': { options: 'config-file= dbus-daemon=' },
  'ssh-agent': { options: '-csDdka:E:O:P:t:' },
  'xvfb-run': {
    options:
      '-ale:f:n:p:s:w: error-file= auth-file= server-num= listen-tcp= xauth-protocol= server-args= wait= auto-servernum',
  },
  unbuffer: { options: '-p' },
  fakeroot: { options: '-uhvl:s:i:b: lib= faked=' },
  caffeinate: { options: '-dimsut:w:' },
  chronic: { options: '-ve' },
  ifne: { options: '-n' },
  rlwrap: { options: '-aAeiInNorRuvWXb:c:C:D:f:g:H:l:m:M:p:P:q:s:S:t:w:z:' },
  tini: { options: '-sgvwp:e:' },
  'dumb-init': { options: '-cvr:' },
  proot: { options: '-r:b:q:w:k:m:v:p:i:R:S:0:' },
  busybox: { options: 'list list-full help install' },
  torify: { options: '-v' },
  torsocks: { options: '-iqda:P:u:p:' },
  sshpass: { options: '-evf:d:p:P:' },
  'cross-env': { assignments: true },
  'cross-env-shell': { assignments: true, joined: true },
  dotenv: { options: '-coe:f:v:p:' },
  dotenvx: { options: '-e:f:', skip: 1 },
  'env-cmd': { options: '-f:r:e: file= environments= silent verbose no-override use-shell' },
  doppler: { skip: 1, options: '-p:c: project= config= command=', code: 'command' },
  op: { skip: 1, options: 'env-file= account=' },
  retry: { options: '-t:d:s: times= delay=' },
  srun: { options: '-n:N:p:c:t:J:o:w:A:q:w:' },
  loader: {
    options: '-L:E:U:r:s:g:R:0: library-path= preload= audit= inhibit-rpath= argv0= glibc-hwcaps-prepend=',
  },
  logsave: { options: '-asv', skip: 1 },
  daemonize: { options: '-avc:e:o:p:u:E:l:u:' },
  dtach: { options: '-zrEn:A:a:c:N:p:r:e:E:' },
  abduco: { options: '-frlqn:A:a:c:e:' },
  tsp: { options: '-nfmdBELvVhgCuKlSD:W:L:N:s:t:c:p:w:k:T:r:S:o:' },
  openvt: { options: '-fesuvlwc: console= force exec switch wait login user verbose' },
  cpulimit: { options: '-fvzikbql:p:e:P:s:c:m: limit= pid= exe= path= cpu= lazy foreground verbose' },
  pexec: { options: '-n:p:r:f:e:o:a:i:u:t:g:y:' },
  multitime: { options: '-vlqsn:s:I:i:r:o:f:c:' },
  wsl: { options: '-~d:u:e: distribution= user= cd= exec= shell-type= system' },
  msgfilter: { options: '-Eehvnsi:o:D:w:K:p:' },
  msgexec: { options: '-i:D:' },
  'flatpak-spawn': {
    options:
      'env= directory= forward-fd= unset-env= sandbox-expose= host clear-env watch-bus sandbox no-network',
  },
  'dbus-launch': {
    options:
      'autolaunch= config-file= auto-syntax binary-syntax close-stderr exit-with-session exit-with-x11 csh-syntax sh-syntax help version',
  },
  'gpg-agent': {
    options:
      '-qvscko:l: homedir= options= log-file= debug= debug-level= default-cache-ttl= default-cache-ttl-ssh= max-cache-ttl= max-cache-ttl-ssh= pinentry-program= scdaemon-program= pinentry-timeout= faked-system-time= ssh-fingerprint-digest= extra-socket= write-env-file= daemon server supervised sh csh quiet verbose no-detach enable-ssh-support allow-preset-passphrase allow-loopback-pinentry use-standard-socket gpgconf-list gpgconf-test help version batch steal-socket',
  },
  faketime: { options: '-mfp: help version disable-monotonic exclude-monotonic', skip: 1 },
  heaptrack: { options: '-rdaho:p:i: output= pid= interpret= raw debug record-only help version' },
  'systemd-nspawn': {
    options:
      '-xbnUqaSZLD:i:t:M:u:p:G:E: directory= image= template= machine= user= port= bind= bind-ro= network-bridge= network-interface= setenv= chdir= uuid= slice= property= private-users= tmpfs= overlay= capability= ephemeral boot as-pid2 quiet private-network read-only volatile keep-unit register help version',
    shell: true,
  },
  'systemd-inhibit': { options: 'what= who= why= mode= list no-pager no-legend help version' },
  'systemd-cat': { options: '-t:p: identifier= priority= stderr-priority= level-prefix= help version' },
  lckdo: { options: '-weEsxqWW:', skip: 1 },
  setlock: { options: '-nNxX', skip: 1 },
  trickle: { options: '-hVvsu:d:w:t:l:n:P:' },
  'systemd-run': {
    options:
      '-rtPqGdSvp:u:E:H:M: unit= property= description= slice= service-type= uid= gid= nice= working-directory= setenv= host= machine= on-active= on-boot= on-startup= on-unit-active= on-unit-inactive= on-calendar= timer-property= path-property= socket-property= background= scope user system wait pty pipe quiet collect no-block remain-after-exit same-dir send-sighup shell no-ask-password slice-inherit expand-environment no-pager',
  },
}

const tellsItself = /^--(help|version)$/

export const wrapper: Program = (args, shell, call, name) => {
  const table = wrappers[name]
  if (table === undefined || (args.length === 1 && tellsItself.test(args[0] ?? ''))) return
  const read = readOptions(table.first === true && /^[^-]/.test(args[0] ?? '') ? args.slice(1) : args, table)
  if (table.shows !== undefined && has(read, ...table.shows.split(' '))) return
  if (read.unsure) suspectEverything(args, shell)
  const splits = name === 'env' ? valueOf(read, 'S', 'split-string') : undefined
  if (splits !== undefined) return shell.run(splitString(splits, read.rest), call)
  let rest = read.rest
  const assign = (): void => {
    // Every word with an equals sign sets a variable, also `BASH_FUNC_ls%%`, from which bash makes a function.
    while (table.assignments === true && /^[^=]+=/.test(rest[0] ?? '')) {
      const [, key = '', value = ''] = /^([^=]+)=(.*)$/s.exec(rest[0] ?? '') ?? []
      shell.environment(key, value)
      rest = rest.slice(1)
    }
    // A lone dash is an option: `env -i - name`.
    if (name === 'env' && rest[0] === '-') rest = rest.slice(1)
  }
  assign()
  if (table.instead === undefined || !has(read, ...table.instead.split(' ')))
    rest = rest.slice(table.skip ?? 0)
  if (name === 'dotenv' && rest[0] === 'run') rest = rest.slice(1)
  if (rest[0] === '--') rest = rest.slice(1)
  assign()
  const options = table.code?.split(' ') ?? []
  const codes = [...valuesOf(read, ...options), ...trailingCode(rest, options)]
  for (const code of table.each === true ? [...codes, ...rest] : codes) shell.code(code)
  if (codes.length > 0 || table.each === true) return
  if (table.joined === true) shell.code(rest.join(' '))
  else if (rest.length > 0) shell.run(rest, call)
  else if (table.shell === true || (name === 'sudo' && has(read, 'i', 's', 'login', 'shell')))
    shell.note('script', `\`${name}\` starts a shell`)
}

/** In `flock file -c code`, the option comes after the operand. */
function trailingCode(rest: readonly string[], options: readonly string[]): string[] {
  const option = /^--?(\w+)$/.exec(rest[0] ?? '')?.[1]
  return option !== undefined && options.includes(option) && rest[1] !== undefined ? [rest[1]] : []
}

/** After an unknown option, any word may begin the command. */
export function suspectEverything(args: readonly string[], shell: Shell): void {
  shell.note('script', 'an option in front of the command is not known')
  if (startsSender(args.slice(0, 40), args, shell))
    shell.note('egress', 'it sends data out, behind options that are not known')
}

/** Whether a command that sends data out begins at one of the first words. */
export const startsSender = (first: readonly string[], words: readonly string[], shell: Shell): boolean =>
  first.some((_, at) => shell.attempt(() => shell.run(words.slice(at))) === 'egress')

/** `env -S 'program arguments'` splits the text at white space, and env reads the words as its own arguments. */
function splitString(text: string, rest: readonly string[]): string[] {
  const plain = text.replaceAll(/\\[_tnrvf]/g, ' ').replaceAll(/["'\\]/g, '')
  return ['env', ...plain.split(/\s+/), ...rest].filter((word) => word !== '')
}

/** xargs appends the words of its input, or with `-I` puts them in place of a mark. */
export const xargs: Program = (args, shell) => {
  const read = readOptions(args, {
    options:
      '-0rtpxoa:d:E:I:L:n:P:s:J:R:S:e::i::l:: arg-file= delimiter= max-args= max-procs= max-chars= process-slot-var= null no-run-if-empty verbose interactive exit open-tty show-limits max-lines replace eof help version',
  })
  if (read.unsure) suspectEverything(args, shell)
  const mark = valueOf(read, 'I', 'J', 'i', 'replace') ?? (has(read, 'i', 'I', 'replace') ? '{}' : undefined)
  const command = mark === undefined ? read.rest : read.rest.map((word) => word.replaceAll(mark, unknown))
  if (command.length > 0) shell.run(mark === undefined ? [...command, unknown] : command)
}

/** Both run the code of `-c` as another user or start a shell; `runuser -u` runs the command in its arguments. */
export const su: Program = (args, shell, call, name) => {
  const read = readOptions(args, {
    options:
      '-flmpP-s:g:G:w:c:u: shell= group= supp-group= whitelist-environment= command= session-command= user= login preserve-environment pty help version',
    anywhere: true,
  })
  const code = valueOf(read, 'c', 'command', 'session-command')
  if (read.unsure) suspectEverything(args, shell)
  if (code !== undefined) return shell.code(code)
  const user = valueOf(read, 'u', 'user')
  if (user !== undefined && name === 'runuser') {
    const at = args.findIndex((arg) => arg === user || arg.endsWith(`=${user}`) || arg === `-u${user}`)
    return shell.run(
      args.slice(at + 1).filter((arg, index) => index > 0 || arg !== '--'),
      call,
    )
  }
  shell.note('script', `\`${name}\` starts a shell`)
}

/** GNU parallel runs the words before `:::` as shell code, or else the words after it or the lines of its input. */
export const parallel: Program = (args, shell, call) => {
  const read = readOptions(args, {
    options:
      '-0XmqktuvVrj:n:N:P:L:I:s:a:C:d:E:i:S:p: jobs= max-args= max-replace-args= max-procs= joblog= results= delay= timeout= retries= colsep= arg-file= delimiter= tmpdir= workdir= load= memfree= basefile= sshlogin= sshloginfile= return= tagstring= halt= pipepart= block= recstart= recend= profile= env= tempdir= bar progress eta dry-run dryrun keep-order ungroup group line-buffer lb tag verbose no-run-if-empty null plain pipe will-cite citation bg fg wait semaphore resume resume-failed shuf silent quote xargs link ctrlc onall nonall help version halt-on-error cleanup transfer round-robin',
  })
  if (has(read, 'S', 'sshlogin', 'sshloginfile')) shell.note('egress', '`parallel` runs it on other machines')
  if (read.unsure) suspectEverything(args, shell)
  const end = read.rest.findIndex((word) => word.startsWith(':::'))
  const words = end < 0 ? read.rest : read.rest.slice(0, end)
  if (words.length > 0) return shell.code(words.join(' ').replaceAll(/\{[^{}]*\}/g, unknown))
  const lines = end < 0 ? call.input : read.rest.slice(end + 1).join('\n')
  shell.note('script', '`parallel` runs the lines it is given')
  if (lines !== undefined) shell.code(lines)
}
