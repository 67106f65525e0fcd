import type { AddressInfo } from 'node:net'
import { createApp } from '../../src/api/app.ts'
import { createHttpServer } from '../../src/api/http-server.ts'
import { readConfig } from '../../src/shared/config.ts'
import { createContext, createMailer } from '../../src/programs/create-context.ts'

/*
 * An API process on the database `URL`, started with a heap too small for whole large answers. Arguments: `URL KEY`,
 * where KEY is the encryption key of the test's context. Prints its address. Ends when its standard input ends.
 */

const [url = '', key = ''] = process.argv.slice(2)
const config = readConfig({
  APP_ENV: 'test',
  DATABASE_URL: url,
  DATA_ENCRYPTION_KEY: key,
  LOG_LEVEL: 'silent',
})
const context = createContext(config, 'api')
const server = createHttpServer(
  createApp(context, {
    temporal: () => Promise.resolve(true),
    draining: new AbortController().signal,
    mail: createMailer(config),
  }),
)
server.listen(0, '127.0.0.1', () => {
  process.stdout.write(`http://127.0.0.1:${(server.address() as AddressInfo).port}\n`)
})
process.stdin.resume().once('end', () => process.exit(0))
