import type { Program } from '../types.ts'

/**
 * These programs work on files, but they can also run another program or reach another machine. Each function reads the
 * arguments of one program.
 */
export const fileTools: Readonly<Record<string, Program>> = {
  pee: (args, shell) => {
    for (const arg of args) shell.code(arg)
  },
  cpio: (args, shell) => {
    if (args.some((arg) => arg.startsWith('--rsh-command')))
      shell.note('script', '`cpio` is told which program to run')
  },
  zip: (args, shell) => {
    for (const [at, arg] of args.entries()) {
      const code =
        /^--unzip-command=(.*)$/s.exec(arg)?.[1] ??
        (/^-TT$|^--unzip-command$/.test(arg) ? args[at + 1] : undefined)
      if (code === undefined) continue
      shell.note('script', '`zip` runs a command')
      shell.code(code)
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
  ffmpeg: (args, shell) => {
    if (args.some((arg) => /^(https?|rtmps?|rtsp|srt|tcp|udp|ftp|sftp|icecast|gopher):/.test(arg)))
      shell.note('egress', '`ffmpeg` connects to another machine')
  },
}
