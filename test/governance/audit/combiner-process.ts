import { appendMarked, openCombiner, organizationId } from './chain-fixture.ts'

/*
 * A separate process that appends entries. Arguments: `url prefix callers each`. It writes a line immediately after
 * every answered append, so the answers are known even after a kill.
 */

const [url = '', prefix = '', callers = '1', each = '1'] = process.argv.slice(2)
const { combiner, close } = openCombiner(url)

async function caller(number: number): Promise<void> {
  for (let n = 0; n < Number(each); n += 1) {
    const mark = `${prefix}-${number}-${n}`
    const seq = await combiner.join(organizationId, appendMarked, mark)
    process.stdout.write(`${seq} ${mark}\n`)
  }
}

await Promise.all(Array.from({ length: Number(callers) }, (_, number) => caller(number)))
await close()
