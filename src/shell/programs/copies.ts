import { isPlain, output, unknown } from '../marks.ts'
import type { Program, Shell } from '../types.ts'
import { has, readOptions } from './options.ts'
import { starts, sendsByPath } from './paths.ts'

const bucket = /^(s3|s3a|gs|b2|az|abfss?|wasbs?|oss|cos|obs|https?|r2|swift|hf):\/\//i

/**
 * A copy to a bucket is egress, to this machine harmless, and to an unknown target egress too. But if the first source
 * is a bucket or a source is unknown, the last may be a copy to this machine, and is a script.
 */
function copies(
  operands: readonly string[],
  shell: Shell,
  name: string,
  isRemote = (word: string): boolean => bucket.test(word),
): void {
  const target = operands.at(-1) ?? ''
  const sources = operands.slice(0, -1)
  if (isRemote(target)) return shell.note('egress', `\`${name}\` copies to a bucket`)
  if (target !== '' && isPlain(target.slice(0, 1))) return
  // xargs may append words after the target, so any bucket but the first operand can be the target.
  if (sources.slice(1).some(isRemote)) return shell.note('egress', `\`${name}\` copies to a bucket`)
  if (sources.some(isRemote) || sources.some((word) => !isPlain(word.slice(0, 1))))
    shell.note('script', `where \`${name}\` copies to is only known when it runs`)
  else if (operands.length > 1) shell.note('egress', `\`${name}\` copies to a bucket`)
}

const globals =
  /^--(profile|region|output|endpoint-url|query|color|ca-bundle|cli-read-timeout|cli-connect-timeout|project|account|configuration|format|subscription|impersonate-service-account|verbosity)$/

const awsCopy = {
  anywhere: true,
  options:
    'include= exclude= acl= storage-class= grants= sse= sse-c= sse-c-key= sse-kms-key-id= website-redirect= content-type= cache-control= content-disposition= content-encoding= content-language= expires= metadata= metadata-directive= page-size= expected-size= profile= region= output= endpoint-url= query= request-payer= source-region= recursive dryrun quiet only-show-errors no-progress delete size-only exact-timestamps follow-symlinks no-follow-symlinks no-guess-mime-type force-glacier-transfer ignore-glacier-warnings no-sign-request no-verify-ssl debug',
}

export const aws: Program = (args, shell) => {
  // `file://path` sends the content of a file.
  if (args.some((arg) => /^(--[\w-]+=)?fileb?:\/\//.test(arg)))
    shell.note('egress', '`aws` sends what is in a file')
  for (const at of starts(args, globals)) {
    const [service = '', ...rest] = args.slice(at)
    const from = starts(rest, globals)[0] ?? rest.length
    const [verb = '', ...more] = rest.slice(from)
    if (service === 's3' && /^(cp|mv|sync)$/.test(verb)) copies(readOptions(more, awsCopy).rest, shell, 'aws')
    else if (service === 's3' && verb === 'presign')
      shell.note('egress', '`aws s3 presign` opens a file to whoever has the address')
    else if (
      (service === 'codecommit' && /^(post-|merge-|override-)/.test(verb)) ||
      /^(put-|send-|publish|upload-|invoke|copy-object|complete-multipart|update-function-code|start-session|execute-command)/.test(
        verb,
      )
    )
      shell.note('egress', '`aws` sends data out')
  }
}

const operandsOf = (args: readonly string[]): string[] => args.filter((word) => !word.startsWith('-'))

export const gcloud: Program = (args, shell) => {
  sendsByPath(shell, 'gcloud', args, globals)
  const storage = args.indexOf('storage')
  const verb = args[storage + 1] ?? ''
  if (storage >= 0 && /^(cp|mv|rsync)$/.test(verb))
    copies(operandsOf(args.slice(storage + 2)), shell, 'gcloud')
}

const copying =
  /^(cp|mv|rsync|sync|copy|copyto|move|moveto|mirror|pipe|put|signurl|presign|bisync|upload-file|upload-unbound-stream|file|share)$/
/** The arguments are a verb, the sources and the target. */
export const copier: Program = (args, shell, _, name) => {
  if (name !== 's3cmd' && name !== 'b2' && sendsByPath(shell, name, args)) return
  const verb = args.findIndex((word) => copying.test(word))
  if (verb < 0) return
  const operands = operandsOf(args.slice(verb + 1))
  if (/^(signurl|presign|put|pipe|upload|share)/.test(args[verb] ?? ''))
    return shell.note('egress', `\`${name}\` sends data out`)
  if (name === 'rclone') {
    // The value of an option may stand last.
    const isRemote = (word: string): boolean => bucket.test(word) || /^:?[^/:]+:/.test(word)
    if (operands.slice(1).some(isRemote)) return shell.note('egress', '`rclone` copies to a bucket')
    copies(operands, shell, name, isRemote)
  }
  // The first folder of a path can be a store: `store/bucket/file`.
  else if (name === 'mc' || name === 'mcli')
    copies(operands, shell, name, (word) => !/^[./~]/.test(word) && word.includes('/'))
  else if (name === 'b2' && args[verb] === 'file') shell.note('egress', '`b2` sends data out')
  else copies(operands, shell, name)
}

/** For a cloud client that copies with the subcommand `group`: `aliyun oss cp`. */
export const copierBehind =
  (group: string): Program =>
  (args, shell, call, name) => {
    const at = args.indexOf(group)
    if (at >= 0) copier(args.slice(at + 1), shell, call, name)
  }

/** Whether rsync, tar and borg read a host in a word: `host:path`, `ssh://host/path`, but no colon after a slash. */
const hasHost = (word: string): boolean =>
  /^[^/:\s]+:(?!\\)/.test(word) || /^(rsync|ssh|sftp|rclone):\/\//.test(word)

/** `-e` names a program that rsync runs. One other than ssh counts as a script, and is read as a command. */
export const rsync: Program = (args, shell) => {
  const read = readOptions(args, {
    anywhere: true,
    options:
      '-vqcarRubdlLkKHpEXAogDtUNJOSnWxmhiPsyzC048F6e:B:T:M:f:@: rsh= rsync-path= suffix= backup-dir= block-size= max-size= min-size= timeout= port= exclude= exclude-from= include= include-from= files-from= filter= chmod= chown= usermap= groupmap= temp-dir= partial-dir= compare-dest= copy-dest= link-dest= bwlimit= log-file= log-file-format= out-format= password-file= sockopts= address= modify-window= max-delete= info= debug= skip-compress= compress-level= compress-choice= checksum-choice= iconv= stop-after= stop-at= remote-option= early-input= write-batch= read-batch= only-write-batch= protocol= verbose quiet no-motd checksum archive recursive relative no-relative no-implied-dirs backup update inplace append append-verify dirs mkpath links copy-links copy-unsafe-links safe-links copy-dirlinks keep-dirlinks hard-links perms executability acls xattrs owner group devices specials times atimes crtimes omit-dir-times omit-link-times super fake-super sparse preallocate dry-run whole-file one-file-system existing ignore-existing remove-source-files delete delete-before delete-during delete-delay delete-after delete-excluded ignore-errors force partial delay-updates prune-empty-dirs numeric-ids ignore-times size-only fuzzy compress old-compress new-compress cvs-exclude from0 protect-args secluded-args blocking-io stats human-readable progress itemize-changes list-only ipv4 ipv6 version help daemon no-perms no-owner no-group no-times no-whole-file fsync trust-sender open-noatime noatime munge-links no-o no-g no-p',
  })
  for (const [name, value] of read.options) {
    if (name !== 'e' && name !== 'rsh' && name !== 'rsync-path') continue
    if (/^ssh(\s|$)/.test(value ?? '')) continue
    shell.note('script', '`rsync` is told which program to run')
    if (value !== undefined) shell.code(value)
  }
  if (read.rest.some(hasHost)) return shell.note('egress', '`rsync` copies to or from another machine')
  if (read.rest.some((word) => [unknown, output].includes(word.slice(0, 1))))
    shell.note('script', 'where `rsync` copies is only known when it runs')
}

export const backup: Program = (args, shell, _, name) => {
  if (
    args.some((word) => hasHost(word) && !word.includes('=')) &&
    /^(create|init|check|compact|prune)$/.test(args.find((word) => !word.startsWith('-')) ?? '')
  )
    shell.note('egress', `\`${name}\` copies to another machine`)
}

const tarOptions = {
  anywhere: true,
  // Without `list`, which takes no value, `--list` would abbreviate `--listed-incremental`, which takes one.
  options:
    '-AcdrtuxvzjJZahiklmnopPsSUwWBGMORb:C:f:F:g:H:I:K:L:N:T:V:X: file= use-compress-program= to-command= info-script= new-volume-script= rsh-command= rmt-command= checkpoint-action= set-mtime-command= directory= files-from= exclude= exclude-from= exclude-ignore= exclude-ignore-recursive= exclude-tag= exclude-tag-all= exclude-tag-under= transform= xform= strip-components= owner= group= owner-map= group-map= mode= mtime= newer= newer-mtime= after-date= format= label= blocking-factor= record-size= tape-length= listed-incremental= level= starting-file= sort= suffix= pax-option= quoting-style= quote-chars= no-quote-chars= warning= volno-file= add-file= sparse-version= hole-detection= checkpoint list sparse',
}

/** `tar cfI archive program` becomes `-c -f archive -I program`: letters take the next words in their order. */
function dashed(args: readonly string[]): string[] {
  const [letters = '', ...rest] = args
  if (!/^[A-Za-z0-9]+$/.test(letters)) return [...args]
  const options = letters.split('').flatMap((letter) => {
    const takes = tarOptions.options.includes(`${letter}:`) && rest.length > 0
    return takes ? [`-${letter}`, rest.shift() ?? ''] : [`-${letter}`]
  })
  return [...options, ...rest]
}

export const tar: Program = (args, shell) => {
  const read = readOptions(dashed(args), tarOptions)
  const local = has(read, 'force-local')
  for (const [option, value = ''] of read.options) {
    if (option === 'checkpoint-action') {
      if (value.startsWith('exec=')) shell.runsText('`tar` runs a command', value.slice(5))
    } else if (/^(F|info-script|new-volume-script|(to|rsh|rmt|set-mtime)-command)$/.test(option))
      shell.runsText('`tar` runs a command', value)
    else if (/^(I|use-compress-program)$/.test(option)) shell.code(value)
    else if (/^(f|file)$/.test(option) && !local && hasHost(value))
      shell.note('egress', '`tar` writes to or reads from another machine')
  }
}
