import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Command } from 'commander'
import { Failure } from './failure.ts'

/*
 * Programs of src/programs, each with its own arguments and exit codes. They run on a machine of the service, with its
 * settings, but for `verify-audit`, which needs a file only.
 */

const programs: Readonly<Record<string, string>> = {
  migrate: 'bring the database up to date',
  'check-config': 'check the settings',
  'create-owner': 'make an organization with its owner',
  'set-plan': 'move an organization to another plan',
  'set-queue': 'give an organization a task queue of its own',
  'connect-installation': 'let an organization use the mail server or the folder of files',
  'prove-domain': 'prove a domain of an organization',
  'rotate-key': 'make a new data key',
  'accept-checkpoints': 'accept the kept checkpoints of audit logs',
  shell: 'open a prompt for developers',
}

export function addPrograms(program: Command): void {
  passed(program, 'verify-audit', 'check an export of an audit log, without a server')
  const server = program
    .command('server')
    .description('commands for whoever operates the service, on its machine and with its settings')
  for (const [name, description] of Object.entries(programs)) passed(server, name, description)
}

function passed(parent: Command, name: string, description: string): void {
  parent
    .command(name)
    .description(description)
    .argument('[arguments...]', 'as the program takes them')
    .allowUnknownOption()
    .passThroughOptions()
    .helpOption(false)
    .action((args: readonly string[]) => start(name, args))
}

async function start(name: string, args: readonly string[]): Promise<void> {
  const path = fileURLToPath(new URL(`../programs/${name}.ts`, import.meta.url))
  if (!existsSync(path)) throw new Failure(`this installation has no program \`${name}\``)
  const child = spawn(process.execPath, [path, ...args], { stdio: 'inherit' })
  // A terminal sends Ctrl-C to the program too.
  const ignore = (): void => undefined
  const end = (): void => void child.kill('SIGTERM')
  process.on('SIGINT', ignore).on('SIGTERM', end)
  process.exitCode = await new Promise<number>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => resolve(code ?? 1))
  })
  process.off('SIGINT', ignore).off('SIGTERM', end)
}
