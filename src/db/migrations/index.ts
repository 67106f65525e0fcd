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
import { deletedKeys } from './0027-deleted-keys.ts'
import { requestIds } from './0029-request-ids.ts'
import { whatWaits } from './0030-what-waits.ts'
import { errorDetails } from './0031-error-details.ts'
import { roleOverrides } from './0032-role-overrides.ts'
import { connections } from './0035-connections.ts'
import { secretRemovals } from './0036-secret-removals.ts'
import { reports } from './0037-reports.ts'
import { auditCounts } from './0038-audit-counts.ts'
import { countedWords } from './0040-counted-words.ts'
<<<<<<< HEAD
import { approvedState } from './0044-approved-state.ts'
import { slackAccounts } from './0045-slack-accounts.ts'
=======
import { files } from './0042-files.ts'
>>>>>>> da6b3cf (files: uploads are read in a process without rights, stored sealed, and reach runs with their labels)

/** In order, forward only. A released migration is never edited. */
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
  { name: '0027-deleted-keys', sql: deletedKeys },
  { name: '0029-request-ids', sql: requestIds },
  { name: '0030-what-waits', sql: whatWaits },
  { name: '0031-error-details', sql: errorDetails },
  { name: '0032-role-overrides', sql: roleOverrides },
  { name: '0035-connections', sql: connections },
  { name: '0036-secret-removals', sql: secretRemovals },
  { name: '0037-reports', sql: reports },
  { name: '0038-audit-counts', sql: auditCounts },
  { name: '0040-counted-words', sql: countedWords },
<<<<<<< HEAD
  { name: '0044-approved-state', sql: approvedState },
  { name: '0045-slack-accounts', sql: slackAccounts },
=======
  { name: '0042-files', sql: files },
>>>>>>> da6b3cf (files: uploads are read in a process without rights, stored sealed, and reach runs with their labels)
]
