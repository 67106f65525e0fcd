/*
 * Programs that are no wrappers and yet run something: the value of an option, or code that an option loads. Names of
 * options without their dashes; a letter is found bundled and attached as well.
 */
const list = (text: string): readonly string[] => text.trim().split(/\s+/)

const values: Readonly<Record<string, string>> = {
  tcpdump: 'z',
  certbot: 'pre-hook post-hook deploy-hook renew-hook manual-auth-hook manual-cleanup-hook',
  restic: 'password-command',
  borg: 'rsh',
  pandoc: 'filter F',
  scrot: 'e exec',
  enscript: 'I filter',
  openvpn:
    'up down ipchange route-up route-pre-down tls-verify auth-user-pass-verify client-connect learn-address',
  bat: 'pager',
  batcat: 'pager',
  dmesg: 'pager',
  delta: 'pager',
  nano: 's speller',
  bpftrace: 'c',
  gem: 'e editor',
  genie: 'c command',
  capsh: 'c',
  strace: 'o output',
  wget: 'use-askpass',
  meson: 'wrapper',
  ctest: 'test-command overwrite',
  gdb: 'ex eval-command',
  lldb: 'o one-line',
  ldapsearch: 'p',
  'start-stop-daemon': 'x exec a startas',
}
/** Whose option's value is run, by the names of the options. */
export const runsValue: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(values).map(([name, options]) => [name, list(options)]),
)

/** An argument by which the program loads code: a library, a filter, a script of its own language. */
export const loads: Readonly<Record<string, RegExp>> = {
  pandoc: /^(-L|--lua-filter)/,
  'ssh-keygen': /^-D/,
  'ssh-add': /^-s/,
  nmap: /^--script(=|$|-args)/,
  bpftrace: /^--unsafe$/,
  cowsay: /^-f.*\/|^[./].*\.cow$/,
  ...Object.fromEntries(
    list('tex latex pdftex pdflatex xetex xelatex luatex lualatex etex mptopdf latexmk').map((name) => [
      name,
      /^--?(shell-escape|enable-write18|pdflatex=|latex=)/,
    ]),
  ),
  dnf: /^--setopt=plugin/,
  yum: /^--setopt=plugin/,
  openvpn: /^--plugin$/,
  npm: /^(--)?script-shell/,
  pnpm: /^(--)?script-shell/,
  rpm: /%\(|^--pipe/,
  rpmspec: /%\(/,
  nft: /^(-f|--file)/,
}

/** Common programs to which every word is a file, a pattern, a text or the name of a package. */
export const fileTools: ReadonlySet<string> = new Set(
  list(`
    cat ls rm cp mv mkdir rmdir touch ln grep egrep fgrep zgrep ag ack head tail wc uniq cut tr paste tee diff cmp comm stat
    file basename dirname realpath readlink chmod chown echo printf print tree du df jq yq gojq which whereis type test [ cd
    pushd git sed awk sort export declare typeset local readonly read set unset apt apt-get dnf yum apk pacman dpkg
    sha256sum md5sum sum cksum nl tac rev fold fmt column less more man gpg openssl
    docker podman helm terraform gh glab jest pytest vitest mocha`),
)
