import { readConfig } from './config.ts'
import { createContext, type Context } from './context.ts'
import { migrate } from './db/migrate.ts'
import { bootstrapIdentities } from './governance/bootstrap.ts'
import { checkInstallation } from './governance/installation.ts'
import { programFile } from './stack/files.ts'
import { startMailCatcher } from './stack/mail-catcher.ts'
import { runStack } from './stack/run.ts'

/* `npm start`: the whole service on one machine, or the API and worker beside a database and Temporal of your own. */

process.exit(
  await runStack({
    programs: {
      api: programFile('./api-server', import.meta.url),
      worker: programFile('./worker', import.meta.url),
    },
    migrate,
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
