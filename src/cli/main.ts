import tab from '@bomb.sh/tab/commander'
import { Command } from 'commander'
import { addApprovalCommands } from './approvals.ts'
import { Failure } from './failure.ts'
import { addLoginCommands } from './login.ts'
import { addOrganizationCommands, version } from './organization.ts'
import { addPlanCommands } from './plan.ts'
import { addPull } from './pull.ts'
import { addRuleCommands } from './rules.ts'
import { addRunCommands } from './runs.ts'
import { addPrograms } from './server.ts'
import { clearPassing, say } from './terminal.ts'
import { addValidate } from './validate.ts'

/*
 * The command line. It reaches a server over HTTP alone. Exit codes: 0 done, 1 not done or the run has not completed,
 * 2 `plan` found something to change or `apply` waits for a second person, 130 after Ctrl-C, 143 after SIGTERM.
 */

const program = new Command('countersign')
  .description('Run workflows under your rules, decide what is held, and keep rules and workflows in files.')
  .version(version)
  .enablePositionalOptions()
  .showSuggestionAfterError()
  .showHelpAfterError('(add --help for how it is used)')

addLoginCommands(program)
addRunCommands(program)
addApprovalCommands(program)
addValidate(program)
addPlanCommands(program)
addPull(program)
addRuleCommands(program)
addOrganizationCommands(program)
addPrograms(program)
tab(program, { completionCommandName: 'completion' })

// The reader of a pipe may have read enough, such as `head`. The command goes on, and its exit code stays true.
for (const stream of [process.stdout, process.stderr])
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error
  })

try {
  await program.parseAsync()
} catch (error) {
  clearPassing()
  const lines = error instanceof Failure ? error.lines : [(error as Error).message]
  for (const [index, line] of lines.entries())
    say(index === 0 ? `error: ${line}` : line, index === 0 ? 'red' : undefined)
  process.exitCode = error instanceof Failure ? error.exitCode : 1
}
