import { agentReports } from './0016-agent-reports.ts'
import { agents } from './0013-agents.ts'
import { cheaperAppends } from './0017-cheaper-appends.ts'
import { audit } from './0002-audit.ts'
import { installationConnections } from './0018-installation-connections.ts'
import { auditByPerson } from './0025-audit-by-person.ts'
import { identity } from './0001-identity.ts'
import { loadsAndQueues } from './0019-loads-and-queues.ts'
import { people } from './0009-people.ts'
import { plumbing } from './0005-plumbing.ts'
import { policy } from './0003-policy.ts'
import { registry } from './0008-registry.ts'
import { provenPeople } from './0014-proven-people.ts'
import { quotas } from './0010-quotas.ts'
import { passwordGuesses } from './0011-password-guesses.ts'
import { retention } from './0012-retention.ts'
import { runs } from './0004-runs.ts'
import { lastingLabels } from './0020-lasting-labels.ts'
import { secondFactor } from './0021-second-factor.ts'
import { storage } from './0022-storage.ts'
import { sealing } from './0023-sealing.ts'
import { countedLabels } from './0026-counted-labels.ts'

/** In order; forward only; a released one is never edited. */
export const migrations: readonly { readonly name: string; readonly sql: string }[] = [
  { name: '0001-identity', sql: identity },
  { name: '0002-audit', sql: audit },
  { name: '0003-policy', sql: policy },
  { name: '0004-runs', sql: runs },
  { name: '0005-plumbing', sql: plumbing },
  { name: '0008-registry', sql: registry },
  { name: '0009-people', sql: people },
  { name: '0010-quotas', sql: quotas },
  { name: '0011-password-guesses', sql: passwordGuesses },
  { name: '0012-retention', sql: retention },
  { name: '0013-agents', sql: agents },
  { name: '0014-proven-people', sql: provenPeople },
  { name: '0016-agent-reports', sql: agentReports },
  { name: '0017-cheaper-appends', sql: cheaperAppends },
  { name: '0018-installation-connections', sql: installationConnections },
  { name: '0019-loads-and-queues', sql: loadsAndQueues },
  { name: '0020-lasting-labels', sql: lastingLabels },
  { name: '0021-second-factor', sql: secondFactor },
  { name: '0022-storage', sql: storage },
  { name: '0023-sealing', sql: sealing },
  { name: '0025-audit-by-person', sql: auditByPerson },
  { name: '0026-counted-labels', sql: countedLabels },
]
