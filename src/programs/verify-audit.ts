import { createReadStream, readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { parseArgs } from 'node:util'
import { shownLine as shown } from '../shared/shown-text.ts'
import { linesOf, verifyFile, WrongFile, type FileResult } from '../governance/audit/verify-file.ts'

/*
 * `countersign verify-audit FILE` or `npm run verify-audit -- FILE` checks an export of an audit log
 * (docs/audit-log.md), without service, database and network. Exit code 0: valid, 1: not valid or not readable, 2:
 * wrong arguments.
 */

const usage = 'usage: countersign verify-audit FILE [--key VERIFIER_KEY]... [--checkpoint NOTE_FILE]...\n'

function argumentsOf(
  args: string[],
): { file: string; keys: readonly string[]; noteFiles: readonly string[] } | null {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        key: { type: 'string', multiple: true, default: [] },
        checkpoint: { type: 'string', multiple: true, default: [] },
      },
    })
    const [file, ...more] = positionals
    return file === undefined || more.length > 0
      ? null
      : { file, keys: values.key, noteFiles: values.checkpoint }
  } catch {
    return null
  }
}

function readNote(path: string): { name: string; text: string } {
  const found = statSync(path)
  // A device or a pipe has no size, and can send data without an end.
  if (!found.isFile()) throw new WrongFile(`\`${path}\` is not a regular file`)
  if (found.size > 64 * 1024) throw new WrongFile(`\`${path}\` is too large for a checkpoint`)
  return { name: basename(path), text: readFileSync(path, 'utf8') }
}

function resultLine(
  { organizationId, entries, hash, verifierKey }: FileResult,
  keys: readonly string[],
): string {
  const trust =
    keys.length > 0
      ? 'signed by the given key'
      : `signed by the key in the file, which you must compare with the key of your service: ${verifierKey}`
  return `valid: ${entries} entries of ${organizationId}, the last with the hash ${hash}; ${trust}`
}

async function main(): Promise<void> {
  const given = argumentsOf(process.argv.slice(2))
  if (given === null) {
    process.stderr.write(usage)
    process.exitCode = 2
    return
  }
  try {
    const { file, keys, noteFiles } = given
    const notes = noteFiles.map(readNote)
    const result = await verifyFile(linesOf(createReadStream(file, { highWaterMark: 256 * 1024 })), {
      keys,
      notes,
    })
    process.stdout.write(`${shown(resultLine(result, keys))}\n`)
  } catch (error) {
    // An error of the file system names the path and the reason.
    const isWrong = error instanceof WrongFile
    process.stdout.write(isWrong ? `not valid: ${shown(error.message)}\n` : '')
    process.stderr.write(isWrong ? '' : `error: ${shown((error as Error).message)}\n`)
    process.exitCode = 1
  }
}

// The reader may have closed the output. The exit code still gives the result.
for (const output of [process.stdout, process.stderr])
  output.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })
await main()
