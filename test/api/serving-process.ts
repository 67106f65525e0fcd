import type { AddressInfo } from 'node:net'
import { createApp } from '../../src/api/app.ts'
import { createHttpServer } from '../../src/api/http-server.ts'
import { readConfig } from '../../src/config.ts'
import { createContext } from '../../src/context.ts'
import { createMailer } from '../../src/mailer.ts'

/*
 * An API process of its own over the database `URL`, started with a heap that is too small for what must not be whole in
 * memory: `URL KEY`, the key being that of the test's own context. Says where it listens, and ends with its standard input.
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
