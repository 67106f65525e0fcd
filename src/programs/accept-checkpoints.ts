import { acceptCheckpoints } from '../governance/audit/accept-checkpoints.ts'
import { exitWithUsage, runOperatorProgram } from './operator-program.ts'

/*
 * `npm run accept-checkpoints -- ORGANIZATION|--all` accepts that the folder AUDIT_CHECKPOINT_DIR has lost checkpoints
 * (docs/audit-log.md#keep-checkpoints). `--all` also accepts a new folder.
 */

const [asked, ...rest] = process.argv.slice(2)
if (asked === undefined || rest.length > 0 || (asked.startsWith('-') && asked !== '--all'))
  exitWithUsage('npm run accept-checkpoints -- ORGANIZATION|--all')
await runOperatorProgram(async (context, say) => {
  const acceptance = await acceptCheckpoints(context, asked === '--all' ? null : asked)
  if (acceptance.refused.length > 0) {
    say('error: not all losses were accepted: verify these audit logs, and run the command again')
    process.exitCode = 1
  } else if (acceptance.accepted.length === 0)
    say(
      acceptance.is_new_folder
        ? 'the folder is accepted; it has lost no checkpoint'
        : 'nothing to do: the folder has lost no checkpoint',
    )
  return acceptance
})
