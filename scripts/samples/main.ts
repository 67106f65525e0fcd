import { turnApprovalsOn } from '../../src/demo/changes.ts'
import { show } from '../../src/demo/show.ts'
import { releaseNotes } from './release-notes.ts'
import { connectServices, type Session } from './session.ts'
import { triage } from './triage.ts'

/*
 * `npm run samples`: the workflows in samples/workflows, with GitHub, Slack and a language model that run on this
 * machine. It uses the stack that runs on DATA_DIR, or its own. Exits with 0 only if every check held.
 */

/** The emulators are development packages, which an installation may lack. */
async function startServices(): Promise<Session['services']> {
  try {
    return await (await import('./services.ts')).startServices()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new Error('the emulators are not installed: run `npm ci` without `--omit=dev`', { cause: error })
  }
}

process.exit(
  await show('samples', async (stack, client, tell) => {
    const services = await startServices()
    const changes = await turnApprovalsOn(client, stack.bootstrap.organization_id, 'admin')
    const tag = Math.random().toString(36).slice(2, 8)
    const session: Session = { stack, client, tell, changes, services, tag }
    try {
      tell.step('The member connects GitHub, Slack and a language model')
      await connectServices(session)
      await triage(session)
      await releaseNotes(session)
    } finally {
      await changes.undo()
      await services.close()
    }
  }),
)
