import { readConfig } from './config.ts'
import { createContext } from './context.ts'
import { migrate } from './db/migrate.ts'
import { bootstrapIdentities } from './governance/bootstrap.ts'
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
    bootstrapIdentities: async (env, save) => {
      const context = createContext(readConfig(env), 'tool')
      try {
        await bootstrapIdentities(context, save)
      } finally {
        await context.close()
      }
    },
  }),
)
