import { type Shell, list } from '../types.ts'

/* Options that load code, or whose value runs (`values`, without dashes); a letter also in a bundle. */

const values: Readonly<Record<string, string>> = {
  tcpdump: 'z',
  certbot: 'pre-hook post-hook deploy-hook renew-hook manual-auth-hook manual-cleanup-hook',
  restic: 'password-command',
  rclone: 'password-command',
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
  ag: 'pager',
  ack: 'pager',
  gpg: 'agent-program dirmngr-program keyboxd-program photo-viewer exec-path',
  gpg2: 'agent-program dirmngr-program keyboxd-program photo-viewer exec-path',
  gpgsm: 'agent-program dirmngr-program keyboxd-program',
  'gpg-connect-agent': 'agent-program dirmngr-program keyboxd-program',
  'gpg-agent': 'pinentry-program scdaemon-program',
  helm: 'post-renderer',
  kustomize: 'helm-command',
  bazel: 'run_under workspace_status_command shell_executable',
  bazelisk: 'run_under workspace_status_command shell_executable',
  'watchman-make': 'r run',
  'consul-template': 'exec',
}
const runsValue: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(values).map(([name, options]) => [name, list(options)]),
)

/** A kubeconfig can name login programs. Files in `/etc` and in the `.kube` folder of a home are trusted. */
const elsewhereConfigured =
  /^--kubeconfig=(?!((~|\/\uFFF0|\/home\/[^/]+|\/root|\/Users\/[^/]+|\/)\/\.kube\/|\/etc\/)(?!.*\.\.))/s

/** Arguments with which a program loads a library, a filter, or a script in its language. */
const loads: Readonly<Record<string, RegExp>> = {
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
  openssl: /^--?(engine|provider-path)(=|$)|SO_PATH:/,
  ...Object.fromEntries(
    list('ld ld.gold ld.bfd ld.lld lld gold ar nm ranlib strip objdump objcopy').map((name) => [
      name,
      /^--?plugin(=|$)/,
    ]),
  ),
  rustc: /^(-C|--codegen=?)?\s*linker=|^-Zcodegen-backend|^codegen-backend=/,
  kustomize: /^--enable-(alpha-plugins|exec)/,
  helm: elsewhereConfigured,
  kubectl: elsewhereConfigured,
  oc: elsewhereConfigured,
}

/** Their words are all files, patterns, texts or package names. */
export const fileTools: ReadonlySet<string> = new Set(
  list(`
    cat ls rm cp mv mkdir rmdir touch ln grep egrep fgrep zgrep ag ack head tail wc uniq cut tr paste tee diff cmp comm stat
    file basename dirname realpath readlink chmod chown echo printf print tree du df jq yq gojq which whereis type test [ cd
    pushd git sed awk sort export declare typeset local readonly read set unset apt apt-get dnf yum apk pacman dpkg
    sha256sum md5sum sum cksum nl tac rev fold fmt column less more man gpg openssl
    docker podman helm terraform gh glab jest pytest vitest mocha`),
)

/** They open addresses of charts, modules, packages or images. */
export const fetchingTools: ReadonlySet<string> = new Set(
  list('helm terraform docker podman dnf yum apk pacman'),
)

/** They take names of programs, packages, services or files, but do not run them. */
export const namesPrograms: ReadonlySet<string> = new Set(
  list(`
    brew port zypper nix-env nix-store nix-channel emerge equery scoop choco winget pkg pkg_add pkg_info pkgin opkg eopkg swupd
    xbps-install xbps-query xbps-remove guix urpmi tdnf microdnf rpm rpmspec dpkg-query dpkg-reconfigure apt-cache apt-mark
    apt-file apt-key apt-show-versions aptitude debsums repoquery paru yay pamac pikaur trizen flatpak snap vcpkg spack conda
    mamba micromamba pip pip3 cargo-binstall eget aqua ubi asdf mise rtx proto volta update-alternatives alternatives eselect
    systemctl journalctl service rc-service rc-update chkconfig update-rc.d initctl launchctl sv supervisorctl loginctl
    ufw firewall-cmd iptables ip6tables nft semanage setsebool getsebool restorecon aa-status aa-complain aa-enforce fail2ban-client
    pgrep pkill killall pidof pidwait ps lsof fuser top htop kill whatis apropos tldr info cheat whereis where mandb
    ldd nm strings hexdump xxd od size objdump readelf patchelf strip getcap setcap chattr lsattr getfacl setfacl install
    bat batcat eza exa lsd tokei cloc scc vidir rename mmv trash rmtrash trash-put shred truncate tar-split
    cspell codespell aspell hunspell shellcheck shfmt hadolint vale alex write-good markdownlint proselint typos
    figlet banner toilet cowsay say espeak notify-send logger seq expr tput gsettings dconf xdg-mime getent id groups
    usermod useradd adduser addgroup groupadd gpasswd delgroup deluser userdel passwd chgrp newgrp
    base64 base32 basenc xxd gzip gunzip zcat bzip2 bunzip2 bzcat xz unxz xzcat zstd unzstd zstdcat lz4 iconv dos2unix unix2dos
    shuf sponge pv split csplit expand unexpand tsort ts gron fx fzf colrm join dot neato jo jc htmlq pup csvlook csvsort csvgrep
    csvstat csvjson in2csv crc32 sha224sum sha384sum md5 bc factor numfmt xclip xsel pbcopy pbpaste wl-copy patch findstr clip
    display convert magick identify ffmpeg ffprobe sox exiftool pdftotext pdfinfo qpdf tidy envsubst chpasswd sleep true false
    date yes nproc uname hostname id whoami exit return shift wait umask ulimit mktemp dd sync link unlink mkfifo printenv stty
    tty users who uptime free vmstat iostat netstat ss ip ifconfig route dmesg sysctl iptables-restore taskkill tasklist
    rustc swiftc kotlinc scalac ghc nvcc ocamlc ocamlopt gfortran fpc nasm yasm as ld pkgutil plutil sw_vers createdb dropdb
    rev-list ctags etags cscope global gtags cmake meson ninja pkg-config pkgconf autoreconf ./configure
    sha1sum sha512sum shasum b2sum cmake-format look locate mlocate plocate updatedb whois-list dasel miller mlr xsv csvcut
    unzip 7z 7za 7zr unrar unar zipinfo rar xmllint xmlstarlet protoc buf sqlfluff clang-format clang-tidy cppcheck iwyu uncrustify
    astyle indent gofmt goimports rustfmt autopep8 isort javap javadoc doxygen pydoc gettext msgfmt
    json yaml hyphen logrotate monit collectd telegraf stow chezmoi code hg svn`),
)
/** They stand before names of packages or services: `install curl`. */
export const namingVerbs =
  /^(install|reinstall|add|remove|rm|uninstall|purge|info|show|search|list|ls|status|upgrade|update|outdated|deps|uses|pin|unpin|link|unlink|query|is-active|is-enabled|logs|which|help|man|docs|describe|explain|allow|deny|enable|disable|grep|find|--grep|--search|--message|-m)$/

/** People often choose a pager to print the output. */
const harmless = /^(cat|less|more|most|never|builtin|)(\s+-[\w-]+)*$/

/** Reads the options with which a program runs or loads code. Another function may read its other arguments. */
export function readCommandOptions(name: string, args: readonly string[], shell: Shell): void {
  for (const code of valuesRun(name, args)) {
    if (harmless.test(code.trim())) continue
    shell.runsText(`\`${name}\` is told which program to run`, code)
  }
  const loading = Object.hasOwn(loads, name) ? loads[name] : undefined
  if (
    loading !== undefined &&
    args.some((arg, at) => loading.test(arg) || loading.test(withValue(arg, args[at + 1])))
  )
    shell.note('script', `\`${name}\` loads code`)
}

/** `--name value` becomes `--name=value`. */
const withValue = (arg: string, next: string | undefined): string =>
  /^--[\w-]+$/.test(arg) && next !== undefined ? `${arg}=${next}` : arg

function valuesRun(name: string, args: readonly string[]): string[] {
  const options = runsValue.get(name) ?? []
  const found = args.flatMap((arg, at) =>
    options.flatMap((option) => {
      const next = args[at + 1] ?? ''
      if (option.length > 1) {
        if (arg === `-${option}`) return [next]
        // Most programs accept the beginning of a long option.
        const [, name = '', value] = /^--([\w-]+)(?:=(.*))?$/s.exec(arg) ?? []
        return name === option || (name.length > 3 && option.startsWith(name)) ? [value ?? next] : []
      }
      const letters = /^-([A-Za-z]+)(.*)$/s.exec(arg)
      const index = letters?.[1]?.indexOf(option) ?? -1
      if (index < 0) return []
      const attached = arg.slice(index + 2)
      return [attached === '' ? next : attached]
    }),
  )
  // strace pipes only to a value with `|` or `!`. gdb and lldb run shell commands only after the words below.
  if (name === 'strace') return found.flatMap((value) => /^[|!](.*)$/s.exec(value)?.[1] ?? [])
  if (name === 'gdb' || name === 'lldb')
    return found.flatMap((value) => /^\s*(?:!|shell\b|platform shell\b|pipe\b)(.*)$/s.exec(value)?.[1] ?? [])
  return found
}
