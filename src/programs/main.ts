import { readConfig } from '../shared/config.ts'
import { WrongSettings } from '../shared/environment.ts'
import { checkSettings } from './check-settings.ts'
import { failStart } from './fail.ts'
import { createContext } from './create-context.ts'
import type { Context } from '../governance/context.ts'
import { migrate } from '../db/migrate.ts'
import { bootstrapIdentities } from '../governance/people/bootstrap.ts'
import { CheckpointFolder } from '../governance/audit/checkpoint-folder.ts'
import { checkInstallation } from '../governance/upkeep/installation.ts'
import { programFile } from '../stack/files.ts'
import { startMailCatcher } from '../stack/mail-catcher.ts'
import { runStack } from '../stack/start.ts'

/*
 * `npm start` runs the whole service on one machine; with your own database and Temporal, only the API and the worker.
 */

// This program creates the data folder even if DATABASE_URL is set.
const { wrong } = checkSettings({ ...process.env, DATA_DIR: process.env['DATA_DIR'] || '.data' })
if (wrong.length > 0) failStart(new WrongSettings(wrong))

process.exit(
  await runStack({
    programs: {
      api: programFile('./api-server', import.meta.url),
      worker: programFile('./worker', import.meta.url),
    },
    migrate,
    markCheckpointFolder: (path) => new CheckpointFolder(path).mark(),
    startMailCatcher,
    checkDatabase: (env) => withContext(env, checkInstallation),
    bootstrapIdentities: (env, save) => withContext(env, (context) => bootstrapIdentities(context, save)),
  }),
)

async function withContext(
  env: NodeJS.ProcessEnv,
  work: (context: Context) => Promise<unknown>,
): Promise<void> {
  const context = createContext(readConfig(env), 'tool')
  try {
    await work(context)
  } finally {
    await context.close()
  }
}
