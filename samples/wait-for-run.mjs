/*
 * `node samples/wait-for-run.mjs RUN STATUS` waits until a run has a status, and prints why it has it. It reads the address
 * and a key from bootstrap.json of the data folder. If the run ends with another status, it says so and exits with 1.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const fail = (why) => {
  console.error(why)
  process.exit(1)
}

const [run, wanted] = process.argv.slice(2)
if (wanted === undefined) fail('usage: node samples/wait-for-run.mjs RUN STATUS')
const file = join(process.env['DATA_DIR'] || '.data', 'bootstrap.json')
const { base_url: base, users } = JSON.parse(readFileSync(file, 'utf8'))
const headers = { authorization: `Bearer ${users.admin.api_key}` }
const goesOn = ['queued', 'awaiting_approval', 'running', 'paused']

for (;;) {
  const response = await fetch(`${base}/api/v1/runs/${run}`, { headers }).catch((error) =>
    fail(`${base} does not answer: ${error.cause?.message ?? error.message}`),
  )
  const { status, status_reason: reason, error } = await response.json()
  if (error !== undefined) fail(`${error.code}: ${error.message}`)
  if (status === wanted) {
    console.log(`${status}: ${reason}`)
    break
  }
  if (!goesOn.includes(status)) fail(`the run is ${status}: ${reason}`)
  await sleep(200)
}
