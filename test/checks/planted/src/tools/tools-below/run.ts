import '../../governance/rules.ts'
