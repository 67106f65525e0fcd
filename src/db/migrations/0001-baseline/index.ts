import { audit } from './audit.ts'
import { connections } from './connections.ts'
import { decisions } from './decisions.ts'
import { lanes } from './lanes.ts'
import { messages } from './messages.ts'
import { people } from './people.ts'
import { policy } from './policy.ts'
import { requests } from './requests.ts'
import { runs } from './runs.ts'
import { signIn } from './sign-in.ts'
import { storage } from './storage.ts'
import { values } from './values.ts'
import { webhooks } from './webhooks.ts'
import { workflows } from './workflows.ts'

/**
 * The whole schema of the first release. A table stands after the tables that it refers to. src/db/schema describes what
 * the columns mean to the code.
 */
export const baseline = [
  people,
  signIn,
  audit,
  policy,
  workflows,
  runs,
  decisions,
  values,
  connections,
  lanes,
  messages,
  webhooks,
  requests,
  storage,
].join('')
