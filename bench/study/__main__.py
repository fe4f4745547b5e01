from bench.study.run import main

main()
