/*
 * `node samples/mail-token.mjs ADDRESS` prints the token in the newest mail to an address. It waits for the mail, a minute at
 * most. The local mail server of `npm start` keeps mails in the folder `mail` of the data folder.
 */

import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const [address] = process.argv.slice(2)
const folder = join(process.env['DATA_DIR'] || '.data', 'mail')

/** In these files `=` is written as `=3D`, and a line that ends in `=` continues in the next one. */
const decoded = (name) =>
  readFileSync(join(folder, name), 'utf8')
    .replaceAll(/=\r?\n/g, '')
    .replaceAll('=3D', '=')

function newestToken() {
  const names = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith('.eml')) : []
  const mail = names
    .sort()
    .map(decoded)
    .findLast((text) => text.includes(`To: ${address}`))
  return mail?.match(/token=([\w.-]+)/)?.[1]
}

const deadline = Date.now() + 60_000
let token = newestToken()
while (token === undefined && Date.now() < deadline) {
  await sleep(200)
  token = newestToken()
}
if (token === undefined) {
  console.error(`there is no mail to ${address} in ${folder}`)
  process.exit(1)
}
console.log(token)
