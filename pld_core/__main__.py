from pld_core.cli import main

raise SystemExit(main())
