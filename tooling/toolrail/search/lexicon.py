"""Say in English what words of Chinese and Japanese queries mean for tools.

Is: a short dictionary of what tools do and act on, longest word first. Is not: a translation, and
nothing of tools is translated: a tool described in Chinese is found by its own words.
Above: `query.py`. Below: `terms.py`.

Most tools are described in English only. Without this a Chinese query finds none of them.
"""

from collections.abc import Iterator

from toolrail.search.terms import terms

_WORDS = """
すべて=all,list やること=todo,task アップロード=upload アラート=alert イベント=event
インポート=import ウェブ=web エクスポート=export エラー=error エンティティ=entity
カレンダー=calendar キャッシュ=cache キャンセル=cancel クリック=click コピー=copy
コミット=commit コメント=comment コンテナ=container コード=code サイズ=size
サイト=site,website サーバー=server スキル=skill スキーマ=schema
スクリーンショット=screenshot スケジュール=schedule ステータス=status
スプレッドシート=spreadsheet,sheet タイムゾーン=timezone タグ=tag タスク=task
ダウンロード=download チケット=ticket チャット=chat チャンネル=channel チーム=team
ツリー=tree ツール=tool テキスト=text テーブル=table ディレクトリ=directory デプロイ=deploy
データ=data データベース=database ドキュメント=document ニュース=news ノート=note
バージョン=version パッチ=patch ビデオ=video ファイル=file フォルダ=folder,directory
フォーム=form フライト=flight ブラウザ=browser ブランチ=branch プルリクエスト=pull,request
プロジェクト=project ページ=page ホテル=hotel ボタン=button マージ=merge メッセージ=message
メモ=note,memo メンバー=member メール=email,mail ユーザ=user ユーザー=user ラベル=label
リスト=list リポジトリ=repository,repo リマインダー=reminder リリース=release リンク=link
ルート=route,directions レビュー=review レポート=report ログ=log ログイン=login 一覧=list
上传=upload 下载=download 书=book 书写=write 书签=bookmark 予報=forecast
予定=event,schedule,calendar 予約=reserve,schedule,book 事件=event 产品=product 今天=today
今日=today 仓库=repository,repo 付款=payment 代码=code 件数=count 价格=price 任务=task
会話=conversation,chat 会議=meeting 会议=meeting 位置=location,position 住所=address
作る=create 作成=create 価格=price 保存=save,store 信息=information,message
修改=edit,update,modify 修正=fix,edit 停止=stop 元に戻=undo,revert 入力=type,input,fill
全部=all,list 公交=transit,bus 公開=publish 关系=relation 内容=content 再生=play
再起動=restart 写=write 写入=write 写文件=write,file 写真=photo,image 分支=branch
分析=analyze,analysis 列出=list 列表=list 列車=train 创建=create 删除=delete,remove
刪除=delete 制作=create,make 削除=delete,remove 加入=add,join 動画=video 历史=history,log
压缩=compress,zip 发=send,post 发布=publish,post 发票=invoice 发行=release 发送=send
取得=get,fetch 取消=cancel 合并=merge 名前を変=rename 启动=start 告警=alert
周边=nearby,around 商品=product 回复=reply 团队=team 图像=image 图片=image,picture
圖片=image 在庫=inventory,stock 地図=map 地图=map 地址=address 地点=place,location
坐标=coordinates 場所=place,location 填写=fill 変換=convert 変更=update,change 复制=copy
大小=size 天气=weather 天気=weather 字段=field,column 存储=store,save
定时=schedule,cron,timer 定时任务=cron,schedule,task 定期=schedule,periodic,cron 实体=entity
実行=execute,run 客户=customer 容器=container 对话=conversation,chat 寻找=find,search
导入=import 导出=export 导航=navigation,directions,route 導出=export 履歴=history,log
工具=tool 工单=ticket,issue 差し替え=replace 差分=diff 差异=diff 库存=inventory,stock
座標=coordinates 建立=create 开启=open,enable 开始=start 异常=exception,error 当前=current
待办=todo,task 总结=summarize,summary 成员=member 截图=screenshot 截屏=screenshot 打开=open
打開=open 执行=execute,run 技能=skill 抓取=fetch,crawl,scrape 投稿=post 报告=report
报表=report 拉取请求=pull,request 拿到=get 按钮=button 换算=convert 探し=find,search
探す=find,search 提交=commit,submit 提醒=reminder 搜寻=search 搜索=search,find
摘要=summary,summarize 撤回=undo,revert 撤销=undo,revert 播放=play 支付=payment,pay
支払=payment 改写=rewrite,edit 改名=rename 数据=data 数据库=database 数量=count,number
文件=file,document 文件夹=folder,directory 文字=text 文本=text 文档=document,file,doc
文章=article 新建=create,new 新規=new,create 新闻=news 日付=date 日历=calendar 日志=log
日志文件=log,file 日期=date 日程=calendar,schedule,event 时区=timezone 时间=time
明天=tomorrow 明日=tomorrow 時間=time 更改=change,update 更新=update 書き込=write 書く=write
書類=document 替换=replace 服务器=server 权重=weight 权限=permission 查=query,search
查找=search,find 查询=query,search 查询语句=query,sql 标签=label,tag 树=tree
株価=stock,price 检查点=checkpoint 检索=search,retrieve 検索=search 檔案=file 步行=walking
比較=compare 比较=compare 气温=temperature,weather 汇率=exchange,rate,currency 決済=payment
注文=order 活动=event,activity 浏览器=browser 消す=delete 消息=message 添加=add 清单=list
清空=clear 清除=clear,delete 滚动=scroll 火车=train 火车票=train,ticket 点击=click
為替=exchange,rate,currency 照会=query 照片=photo,image 爬取=crawl,scrape 版本=version
状态=status 状態=status 现在=current,now 現在=current 生成=generate,create 用户=user
电子邮件=email 电影=movie 电车=train 画像=image 登录=login 监控=monitor 監視=monitor
目录=directory,folder 知識=knowledge 知识=knowledge 短信=sms,message 票=ticket 移动=move
移動=move 移除=remove,delete 笔记=note 経路=route,directions 統計=statistics 網頁=web,page
編集=edit 结构=schema,structure 统计=statistics,count 缓存=cache 编辑=edit 网站=website,site
网页=web,page 置換=replace 翻訳=translate 翻译=translate 聊天=chat 联系人=contact 股票=stock
航班=flight 获取=get,fetch 补丁=patch 表单=form 表格=table,spreadsheet,sheet
要約=summarize,summary 覚え=remember,store 视频=video 解压=extract,unzip 計画=plan
計算=calculate,compute 記事=article 記憶=memory 訪問=visit,navigate
設定=set,setting,configure 認識=recognize 読み出=read 読み取=read 読み込=read,load 読む=read
課題=issue 調べ=search,query 請求書=invoice 计划=plan,schedule 计算=calculate,compute
订单=order 订阅=subscription 记住=remember,store 记录=record,log 记忆=memory
设置=set,setting,configure 访问=visit,navigate 评审=review 评论=comment
识别=recognize,detect 语音=voice,speech 读=read 读写=read,write 读取=read,get 資料夾=folder
货币=currency 起動=start 距离=distance 距離=distance 路径=path,route 路线=route,directions
転送=forward 车票=ticket 车站=station 转发=forward 转换=convert 输入=type,input
运行=run,execute 近く=nearby 返信=reply 返金=refund 追加=append,add 退款=refund 送る=send
送信=send 通知=notification,notify 連絡先=contact 邮件=email,mail 邮箱=email,mailbox
部署=deploy 配置=configuration,config 酒店=hotel 重启=restart 重命名=rename,move
链接=link,url 错误=error 键=key 開く=open 関係=relation 问题=issue,problem 阅读=read
附加=append,attach 附近=nearby 随机=random 音乐=music 音声=audio,speech,voice 音楽=music
音频=audio 顧客=customer 页面=page 项目=project 预定=reserve,schedule,book 预报=forecast
预订=reserve,book 频道=channel 駅=station 驾车=driving
"""
"""Word, then its terms; written for this project."""


def english(run: str) -> Iterator[str]:
    """Yield the English terms of the known words in a run of characters, in order."""
    at = 0
    while at < len(run):
        size = next((n for n in range(_LONGEST, 0, -1) if run[at : at + n] in _MEANINGS), 0)
        if size:
            yield from _MEANINGS[run[at : at + size]]
        at += size or 1


def _read(text: str) -> dict[str, tuple[str, ...]]:
    pairs = (entry.split("=") for entry in text.split())
    return {word: tuple(dict.fromkeys(terms(meaning.replace(",", " ")))) for word, meaning in pairs}


_MEANINGS = _read(_WORDS)
_LONGEST = max(map(len, _MEANINGS))
