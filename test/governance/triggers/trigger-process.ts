import { startRunner } from '../../../src/governance/lanes/runner.ts'
import { triggerSender } from '../../../src/governance/triggers/schedule.ts'
import { createContext } from '../../../src/programs/create-context.ts'
import { readConfig } from '../../../src/shared/config.ts'

/* A process that fires triggers, until it is killed. Its runs stay in the queue: there is no Temporal. */

const context = createContext(readConfig(process.env), 'worker')
startRunner(context, [triggerSender(context, async () => {})], 20)
process.send?.(context.config.processId)
process.once('disconnect', () => process.exit())
