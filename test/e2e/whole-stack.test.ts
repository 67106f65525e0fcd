import { afterAll, beforeAll, test } from '@jest/globals'
import { expectQuiet } from '../support/chaos-checks.ts'
import { agents } from './whole-stack/agents.ts'
import { home, openHome } from './whole-stack/home.ts'
import { oneApproval } from './whole-stack/one-approval.ts'
import { restarts } from './whole-stack/restarts.ts'
import { sealedValues } from './whole-stack/sealed-values.ts'
import { severalProcesses } from './whole-stack/several-processes.ts'

/* What only a whole stack can show. The parts share one stack, one after another, and each leaves nothing under way. */

beforeAll(openHome)
afterAll(() => home.close())

restarts()
severalProcesses()
oneApproval()
agents()
test('nothing is left unfinished', () => expectQuiet(home))
sealedValues()
