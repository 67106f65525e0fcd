import { named, type Program, type Shell, when } from '../types.ts'
import { isDynamic, unknown } from '../marks.ts'

/** Programs that work on files, but can also run another program or reach another machine. */
const others: Readonly<Record<string, Program>> = {
  pee: (args, shell) => {
    for (const arg of args) shell.code(arg)
  },
  cpio: when(/^--rsh-command/, 'script', () => '`cpio` is told which program to run'),
  zip: (args, shell) => {
    for (const [at, arg] of args.entries()) {
      const code =
        /^--unzip-command=(.*)$/s.exec(arg)?.[1] ??
        (/^-TT$|^--unzip-command$/.test(arg) ? args[at + 1] : undefined)
      if (code === undefined) continue
      shell.runsText('`zip` runs a command', code)
    }
  },
  sort: (args, shell) => {
    for (const [at, arg] of args.entries()) {
      const [all, value] = /^--comp[a-z-]*(?:=(.*))?$/s.exec(arg) ?? []
      const program = all === undefined ? undefined : (value ?? args[at + 1])
      if (program !== undefined && !/^(gzip|bzip2|xz|zstd|lz4|lzop)$/.test(program))
        shell.note('script', '`sort` runs a program')
    }
  },
  split: (args, shell) => {
    for (const [at, arg] of args.entries()) {
      const code =
        /^--fi[a-z]*=(.*)$/s.exec(arg)?.[1] ?? (/^--fi[a-z]*$/.test(arg) ? args[at + 1] : undefined)
      if (code !== undefined) shell.code(code)
    }
  },
  ffmpeg: when(
    /^(https?|rtmps?|rtsp|srt|tcp|udp|ftp|sftp|icecast|gopher):/,
    'egress',
    () => '`ffmpeg` connects to another machine',
  ),
}

const executes = /^-(exec|execdir|ok|okdir)$/

const find: Program = (args, shell) => {
  for (let at = 0; at < args.length; at += 1) {
    if (!executes.test(args[at] ?? '')) continue
    let end = at + 1
    while (end < args.length && args[end] !== ';' && !(args[end] === '+' && args[end - 1] === '{}')) end += 1
    perFile(args.slice(at + 1, end), shell)
    at = end
  }
}

/** fd runs the words after `-x` or `-X` for the found files. */
const fd: Program = (args, shell) => {
  const at = args.findIndex((arg) => /^(-[a-zA-Z]*[xX]|--exec(-batch)?)$/.test(arg))
  const attached = args.find((arg) => /^--exec(-batch)?=/.test(arg))
  if (attached !== undefined) perFile([attached.slice(attached.indexOf('=') + 1)], shell)
  if (at < 0) return
  const words = args.slice(at + 1)
  const end = words.indexOf(';')
  perFile(end < 0 ? words : words.slice(0, end), shell)
}

/** The unknown file name replaces `{}`. If it is part of the program's name, the program is unknown too. */
const perFile = (words: readonly string[], shell: Shell): void =>
  shell.run(words.map((word) => word.replaceAll(/\{[/.]{0,2}\}/g, unknown)))

/** ripgrep can run a program on each file before it searches the file. */
const rg: Program = (args, shell) => {
  for (const [at, arg] of args.entries()) {
    const value =
      /^--(?:pre|hostname-bin)=(.*)$/s.exec(arg)?.[1] ??
      (/^--(pre|hostname-bin)$/.test(arg) ? args[at + 1] : undefined)
    if (value === undefined || value === '') continue
    shell.runsText('`rg` runs a program for every file', value)
  }
}

/** A server sees the names, so a name from a file, or only known when the command runs, is egress. */
const lookup: Program = (args, shell, _, name) => {
  if (args.some(isDynamic))
    shell.note('egress', `\`${name}\` asks for a name that is only known when it runs`)
  else if ((name === 'dig' && args.includes('-f')) || (name === 'fping' && args.includes('-f')))
    shell.note('egress', `\`${name}\` asks for names from a file`)
}

export const fileTools: readonly (readonly [string, Program])[] = [
  ...Object.entries(others),
  ...named('find', find),
  ...named('fd fdfind', fd),
  ...named('rg', rg),
  ...named(
    'dig nslookup host drill kdig delv dog doggo nmap resolvectl systemd-resolve getent avahi-resolve ping ping6 traceroute tracepath mtr arping fping ssh-keyscan ntpdate sntp snmpget snmpwalk ldapsearch',
    lookup,
  ),
]
