import { hash } from 'node:crypto'
import pg from 'pg'
import { Verifier } from '../../src/governance/audit/verify.ts'
import { benchKey } from './macs.ts'

/*
 * Runs one measurement of the verify benchmark in its own process. The arguments are `side url organization entries`.
 */

export interface VerifyMeasurement {
  readonly seconds: number
  /** The largest resident memory of the whole process, in KiB. */
  readonly peak: number
}

const [side = '', url = '', organizationId = '', entries = ''] = process.argv.slice(2)

/**
 * The simple loop, for comparison. It hashes every row when the row arrives, with Node's fastest method. Returns the
 * number of rows.
 */
async function readAndHash(): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  // The verifier reads with the same settings. Without these settings, the database would first sort the whole chain.
  for (const way of ['enable_sort', 'enable_seqscan', 'enable_bitmapscan', 'jit'])
    await client.query(`set ${way} = off`)
  let hashed = 0
  await new Promise((resolve, reject) => {
    const config: pg.QueryArrayConfig = {
      rowMode: 'array',
      text: 'select canonical from audit_events where organization_id = $1 order by seq',
      values: [organizationId],
    }
    const stored = new pg.Query(config)
    stored.on('row', (row: [string]) => {
      hash('sha256', row[0], 'hex')
      hashed += 1
    })
    stored.on('end', resolve)
    stored.on('error', reject)
    client.query(stored)
  })
  await client.end()
  return hashed
}

async function verify(): Promise<number> {
  const answer = await new Verifier().verify({
    databaseUrl: url,
    appRole: 'countersign_app',
    organizationId,
    encryptionKeys: [benchKey],
  })
  if (!answer.valid) throw new Error(`the chain does not verify: ${JSON.stringify(answer)}`)
  return answer.entries
}

const started = performance.now()
const done = await (side === 'verify' ? verify() : readAndHash())
const seconds = (performance.now() - started) / 1000
if (done !== Number(entries)) throw new Error(`${done} entries were read, expected ${entries}`)
process.send?.({ seconds, peak: process.resourceUsage().maxRSS } satisfies VerifyMeasurement)
process.disconnect?.()
