import type { AddressInfo } from 'node:net'
import type { Server } from 'node:http'
import express from 'express'
import { createApp } from '../../src/api/app.ts'
import { createHttpServer } from '../../src/api/http-server.ts'
import { readConfig } from '../../src/shared/config.ts'
import { createContext } from '../../src/programs/create-context.ts'
import type { Context } from '../../src/governance/context.ts'
import { authenticate } from '../../src/governance/access/identity.ts'

/*
 * One API process of the authorize benchmark. The process also contains the other side of the comparison, which uses
 * the same connection pool. The other side is an Express handler. It authenticates the caller in the same way, and
 * inserts one row for each request.
 */

const context = createContext(readConfig(), 'api')
// The application of the product. In this benchmark it uses neither Temporal nor mail.
const ours = createHttpServer(
  createApp(context, {
    temporal: () => Promise.resolve(true),
    draining: new AbortController().signal,
    mail: () => Promise.resolve(),
  }),
)

process.on('SIGTERM', () => process.exit())
process.send?.({ ours: await listen(ours), theirs: await listen(createHttpServer(bareInsert(context))) })

function bareInsert({ keys, pool }: Context): express.Express {
  const app = express()
  app.disable('x-powered-by')
  app.post('/authorize', express.json({ limit: '4mb' }), async (request, response) => {
    const identity = await authenticate(keys, request.headers.authorization)
    if (identity === null) {
      response.status(401).end()
      return
    }
    const { rows } = await pool.query<{ id: number }>(
      'insert into bench_calls (user_id, body) values ($1, $2) returning id',
      [identity.user.id, JSON.stringify(request.body)],
    )
    response.json({ decision: 'allow', decision_id: String(rows[0]?.id) })
  })
  return app
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
